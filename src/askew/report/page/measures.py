"""What the final models are worth by further measures: balanced accuracy, macro F1, AUROC, ..., mean over seeds."""

from __future__ import annotations

import math

from askew.report.page.blocks import Section, Table, Text
from askew.report.page.report import Report, Run, taken_on

_SHARES = ("accuracy", "f1", "auroc", "exact_match")  # at the end of a name: numbers to show in percent


def section(report: Report) -> Section | None:
    names = list(dict.fromkeys(name for series in report.series for name in _measures(series.first)))
    if "loss" in names and any(_same(report, "loss", name) for name in names if name != "loss"):
        names.remove("loss")
    rows = []
    for series in report.ranked:
        means = [series.each(lambda run, name=name: _measures(run).get(name)) for name in names]  # type: ignore[misc]
        if any(mean is not None for mean, _ in means):
            rows.append((series, [_shown(name, *mean) for name, mean in zip(names, means, strict=True)]))
    if not rows:
        return None
    on = sorted({str((run.evaluation or {}).get("judged_on") or "") for series in report.series
                 for run in series.runs} - {""})
    return Section("measures", "Further measures", [
        Table(["", *(f"#{_title(name)}" for name in names)], [[series.label, *cells] for series, cells in rows],
              [series.look for series, _ in rows]),
        Text(f"After the last round, {' or '.join(map(taken_on, on))}." if on else "After the last round.")])


def _same(report: Report, one: str, other: str) -> bool:
    """Whether two measures are one under two names in all runs, but for rounding: a classifier's loss, the log loss."""
    pairs = [(_measures(series.first).get(one), _measures(series.first).get(other)) for series in report.series]
    return all(a is not None and b is not None and math.isclose(a, b, rel_tol=1e-4) for a, b in pairs)


def _measures(run: Run) -> dict[str, float | None]:
    return dict((run.evaluation or {}).get("measures") or {})


def _title(name: str) -> str:
    """As people write it.

    Example:
        >>> _title("macro_f1"), _title("auroc"), _title("log_loss")
        ('Macro F1', 'AUROC', 'Log loss')
    """
    words = name.replace("_", " ").replace("f1", "F1").replace("auroc", "AUROC")
    return words[:1].upper() + words[1:]


def _shown(name: str, mean: float | None, spread: float | None) -> str:
    if mean is None:
        return "–"
    scale, unit, digits = (100, "%", 1) if name.endswith(_SHARES) else (1, "", 3)
    return f"{scale * mean:.{digits}f}{'' if spread is None else f' ± {scale * spread:.{digits}f}'}{unit}"
