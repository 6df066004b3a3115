"""Numbers over rounds, or over bytes, one line a series with a band over its seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from askew.report.page.blocks import Choice, Figure, Section, Text, axis, hover, points
from askew.report.page.report import Report, Run, Series, taken_on
from askew.rounds.record import Record

_MOST_POINTS = 400  # of a line; a screen has hardly more
Number = Callable[[Record], float | None]


def section(report: Report) -> Section:
    """The headline over rounds, and what else records hold of every evaluated round."""
    measure = report.measure
    shown = ", ".join(filter(None, (measure.name, taken_on(measure.on) if measure.on else "")))
    figures = [(shown, [figure(report.series, measure.of, measure.name, measure.is_share)])]
    plain = measure.name.replace(" ", "_")
    others = {plain: (f"{measure.name} as the recipe judges it", measure.is_share),
              f"device_{plain}_mean": (f"mean over clients of their own {measure.name}", measure.is_share),
              f"device_{plain}_min": (f"the lowest client's {measure.name}", measure.is_share),
              f"device_{plain}_max": (f"the highest client's {measure.name}", measure.is_share),
              f"held_out_{plain}": (f"{measure.name} on held-out training examples", measure.is_share),
              "loss": ("loss on the test data", False), "train_loss": ("loss in training", False)}
    for key, (words, is_share) in others.items():
        if key not in measure.keys and has(report, key):
            figures.append((words, [figure(report.series, number(key), words, is_share)]))
    blocks: list[Any] = [Choice("measure", "Show", figures)] if len(figures) > 1 else figures[0][1]
    if any(len(one.counted) > 1 for one in report.series):
        blocks.append(Text("Lines are means over seeds; bands reach one standard deviation to either side."))
    return Section("curves", "Learning curves", blocks)


def has(report: Report, key: str) -> bool:
    return any(number(key)(record) is not None for series in report.series for run in series.runs
               for record in run.records)


def number(key: str) -> Number:
    """What records hold under a name."""
    return lambda record: record.get(key)


def figure(series: Sequence[Series], of: Number, title: str, is_share: bool,
           sent: Callable[[Run], list[float]] | None = None) -> Figure:
    """One line a series: its mean over the counted seeds, with a band.

    Args:
        of: what to draw of a record.
        sent: megabytes behind a run after each of its records, for the x axis; else it has the rounds.
    """
    data: list[dict[str, Any]] = []
    drawn = []
    faint = 0.16 if len(series) <= 5 else 0.07
    for one in series:
        x, mean, spread = over_seeds(one, of, sent)
        if not x:
            continue
        drawn.append(one.look)
        if any(spread):
            edges = [m + s for m, s in zip(mean, spread, strict=True)]
            edges += [m - s for m, s in reversed(list(zip(mean, spread, strict=True)))]
            data.append({"type": "scatter", "mode": "lines", "name": one.label, "legendgroup": one.look.group,
                         "x": [*x, *reversed(x)], "y": edges, "fill": "toself",
                         "fillcolor": f"{one.look.colour}/{faint}", "line": {"width": 0}, "hoverinfo": "skip"})
        where = "round %{x}" if sent is None else "%{x:.3g} MB"
        several = " ± %{customdata:.1%}" if is_share else " ± %{customdata:.2g}"
        data.append(points(one.look, x, mean, customdata=spread,
                           hovertemplate=f"{hover('y', is_share)}{several if any(spread) else ''}, {where}"))
    across = axis("round", **whole_rounds(series)) if sent is None else axis("megabytes sent, both ways")
    layout = {"xaxis": across, "yaxis": axis(title, is_share), "hovermode": "closest"}
    return Figure(data, layout, f"{title} over {'rounds' if sent is None else 'bytes'}", lines=drawn, height=380)


def whole_rounds(series: Sequence[Series]) -> dict[str, Any]:
    """Ticks at rounds; of few rounds plotly would put some between them."""
    few = max(len(run.records) for one in series for run in one.runs) <= 12
    return {"tick0": 0, "dtick": 1} if few else {}


def over_seeds(series: Series, of: Number, sent: Callable[[Run], list[float]] | None = None,
               ) -> tuple[list[float], list[float], list[float]]:
    """Places, means and standard deviations (0 for one seed), of at most so many rounds."""
    points: dict[int, list[tuple[float, float]]] = {}
    for run in series.counted:
        places = sent(run) if sent else [float(record["round"]) for record in run.records]
        for record, place in zip(run.records, places, strict=True):
            if (value := of(record)) is not None:
                points.setdefault(record["round"], []).append((place, value))
    rounds = sorted(points)
    if len(rounds) > _MOST_POINTS:
        rounds = [rounds[i] for i in np.unique(np.linspace(0, len(rounds) - 1, _MOST_POINTS).round().astype(int))]
    columns = [np.array(points[round]) for round in rounds]
    return ([float(c[:, 0].mean()) for c in columns], [float(c[:, 1].mean()) for c in columns],
            [float(c[:, 1].std(ddof=1)) if len(c) > 1 else 0.0 for c in columns])
