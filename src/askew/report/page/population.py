"""Who has what: each client's examples by class, and how far that is from the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from askew.core.skew import emd, largest_emd
from askew.report.page.blocks import Figure, Line, Section, Text, axis, ticks
from askew.report.page.histogram import histogram
from askew.report.page.report import CLASSES, Report, Run, Series, client_name, missing
from askew.report.palette import class_colours

_MOST_CLIENTS = 60
_MOST_CLASSES = 20


def section(report: Report) -> Section | None:
    if report.tasks and not report.tasks & CLASSES:
        return None
    blocks = report.per_run(_of_run)
    return Section("population", "The population", blocks or [missing(report, "how clients share the examples")])


def _of_run(series: Series, run: Run) -> list[Any]:
    clients = run.clients
    if clients is None or clients.get("label_counts") is None or run.evaluation is None or series.in_one_place:
        return []
    counts = np.asarray(clients["label_counts"])
    distances = emd(counts)
    return [_bars(counts, distances, clients, [str(name) for name in run.evaluation["classes"] or []]),
            histogram(distances, 0.0, max(largest_emd(counts.shape[1]), float(distances.max())),
                      "EMD of a client from the whole", ".2f"), Text(_in_words(run, counts, distances))]


def _in_words(run: Run, counts: np.ndarray, distances: np.ndarray) -> str:
    sizes = counts.sum(axis=1)
    mean = ((run.evaluation or {}).get("skew") or {}).get("mean_emd")
    return (f"{len(counts):,} clients with {int(sizes.sum()):,} examples, {int(sizes.min()):,} to "
            f"{int(sizes.max()):,} each. EMD is the sum over classes of the differences between a client's shares and "
            f"those of the whole; its mean is {float(distances.mean()) if mean is None else mean:.2f}, and one class "
            f"alone would be {largest_emd(counts.shape[1]):.3g}.")


def _bars(counts: np.ndarray, distances: np.ndarray, clients: Mapping[str, Any], classes: list[str]) -> Figure:
    shown = np.arange(len(counts))
    if len(counts) > _MOST_CLIENTS:  # evenly, from the one most like the whole to the least
        order = np.argsort(distances, kind="stable")
        shown = order[np.linspace(0, len(order) - 1, _MOST_CLIENTS).round().astype(int)]
    names = [client_name(clients["name"][k]) for k in shown]
    groups = _columns(counts)
    colours = class_colours(len(groups))
    data, lines = [], []
    for at, columns in enumerate(groups):
        label = classes[columns[0]] if len(columns) == 1 else f"{len(columns)} other classes"
        look = Line(label, f"class {at}", colours[at])
        lines.append(look)
        data.append({"type": "bar", "name": f"class {label}" if label.isdigit() else label, "legendgroup": look.group,
                     "x": list(range(len(shown))), "y": counts[shown][:, columns].sum(axis=1),
                     "customdata": [[name, distances[k]] for name, k in zip(names, shown, strict=True)],
                     "marker": {"color": look.colour, "line": {"width": 0.5, "color": "--paper"}},
                     "hovertemplate": "%{customdata[0]}: %{y:,} examples, EMD %{customdata[1]:.2f}"})
    title = "clients" if len(shown) == len(counts) else f"{len(shown)} of {len(counts):,} clients, by EMD"
    marks = ticks([clients["name"][k] for k in shown], 12) if len(shown) <= 30 else {"showticklabels": False}
    layout = {"barmode": "stack", "bargap": 0.08, "xaxis": axis(title, showgrid=False, **marks),
              "yaxis": axis("examples")}
    return Figure(data, layout, "examples of each client by class", lines=lines)


def _columns(counts: np.ndarray) -> list[list[int]]:
    """Each class, or, of many, the most frequent ones and the rest together."""
    number = counts.shape[1]
    if number <= _MOST_CLASSES:
        return [[c] for c in range(number)]
    frequent = np.argsort(-counts.sum(axis=0), kind="stable")
    return [*([int(c)] for c in sorted(frequent[: _MOST_CLASSES - 1])),
            sorted(int(c) for c in frequent[_MOST_CLASSES - 1:])]
