"""Whether a recipe lets the server see sums over clients alone, as secure aggregation does."""

from __future__ import annotations

from askew.engine.task import Task


def needs_single_updates(task: Task) -> str | None:
    """Why the server must see what a single client sent, in one line; None where sums over clients are enough.

    A mean, a mean of norms and a sum of signs are sums of what each client can compute itself. A median, a guard that
    compares lengths, a probe that looks at clients' models and scores that the pool follows client by client are not.
    """
    if task.guards:
        guard = task.guards[0]
        return f"guard {guard.spec.name if guard.spec else 'of your own'} compares the lengths of single updates"
    for piece in task.server.pieces:
        if any(statistic.keeps_all for statistic in piece.needs):
            return f"server piece {piece.name} keeps every client's update"
    for probe in task.probes:
        name = probe.spec.name if probe.spec else "of your own"
        if probe.observe is not None:
            return f"probe {name} looks at every client's model"
        if any(statistic.keeps_all for statistic in probe.needs):
            return f"probe {name} keeps every client's update"
    if task.pool.needs_validation:
        return f"pool {task.pool.spec.name if task.pool.spec else 'of your own'} follows each client's scores"
    return None
