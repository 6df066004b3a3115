"""Values over what was varied: one line per series, the paper's printed numbers beside ours."""

from __future__ import annotations

import math
import re
from typing import Any

from askew.papers.item import Plot, Row
from askew.papers.measures import measure
from askew.papers.store import Results
from askew.papers.summary import ItemSummary, RowSummary
from askew.report.canvas import DASHES, Axes, Figure
from askew.report.paper_curves import COLOURS

_MOST_PLACES = 10  # beyond this a logarithmic axis is marked by powers of ten
_APART = 0.05  # of a logarithmic axis: of two places that are nearer the first alone is marked
_ASIDE = 6  # points to the right: a printed number stands beside ours, not on it


def draw_points(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """Means with one standard deviation.

    Dots are single seeds, rings what the paper printed, dashed lines rows without an x. Where the label of the axis
    lists as many names as there are places, "layer (conv1, fc1)" at 1 and 2, these are written at the places.
    """
    plot = summary.item.plot
    assert plot is not None
    axes = figure.subplots()
    rows = [(row, measured) for row, measured in zip(summary.item.rows, summary.rows, strict=True)]
    names = list(dict.fromkeys(row.series for row, _ in rows if row.x is not None))
    handles: list[Any] = []
    for at, name in enumerate(names):
        style = {"color": COLOURS[at % len(COLOURS)], "linestyle": DASHES[at // len(COLOURS) % len(DASHES)]}
        points = sorted(((row, m) for row, m in rows if row.series == name and row.x is not None),
                      key=lambda pair: pair[0].x or 0.0)
        handles += _series(axes, points, results, summary.item.paper, name, style)
    for at, (row, measured) in enumerate((row, m) for row, m in rows if row.x is None and m.ours.mean is not None):
        handles.append(axes.axhline(measured.ours.mean or 0.0, color="#777777",
                                    linestyle=DASHES[(at + 1) % len(DASHES)], linewidth=1.2, label=row.name, zorder=1))
    if any(measured.paper for _, measured in rows):
        handles.append(axes.plot([], [], "o", markerfacecolor="white", markeredgecolor="#555555", markersize=6,
                                 label="paper")[0])
    unit = next((measured.unit for _, measured in rows if measured.ours.mean is not None), "")
    axes.set(xlabel=plot.x_label, ylabel=f"{plot.y_label} (%)" if unit == "%" else plot.y_label)
    if plot.beside:
        handles.append(_beside(axes, plot))
    _mark_places(axes, sorted({row.x for row, _ in rows if row.x is not None}), plot)
    shown = [handle for handle in handles if handle.get_label() and not str(handle.get_label()).startswith("_")]
    if len(shown) > 1:
        figure.legend(handles=shown, loc="outside right upper", frameon=False, fontsize=8.5, handlelength=2.6,
                      alignment="left")


def _series(axes: Axes, rows: list[tuple[Row, RowSummary]], results: Results, paper: str, name: str,
            style: dict[str, Any]) -> list[Any]:
    from matplotlib.transforms import ScaledTranslation

    aside = axes.transData + ScaledTranslation(_ASIDE / 72, 0, axes.figure.dpi_scale_trans)
    for row, measured in rows:
        if measured.paper is not None:
            axes.errorbar(row.x or 0.0, measured.paper.value, yerr=measured.paper.spread, fmt="o", transform=aside,
                          markersize=6,
                          markerfacecolor="white", color=style["color"], elinewidth=0.9, capsize=2, zorder=3)
            axes.update_datalim([(row.x or 0.0, measured.paper.value)])  # what is moved aside does not count by itself
    ours = [(row, measured) for row, measured in rows if measured.ours.mean is not None]
    if not ours:
        return []
    if any(measured.ours.n > 1 for _, measured in ours):
        for row, measured in ours:
            for value in _by_seed(row, measured, results, paper):
                axes.plot(row.x or 0.0, value, ".", color=style["color"], markersize=4, alpha=0.5, markeredgewidth=0,
                          zorder=2)
    return [axes.errorbar([row.x or 0.0 for row, _ in ours], [measured.ours.mean or 0.0 for _, measured in ours],
                          yerr=[measured.ours.spread or 0.0 for _, measured in ours]
                          if any(m.ours.spread for _, m in ours) else None,
                          fmt="o", markersize=4.5, linewidth=1.5, elinewidth=1.2, capsize=2.5, label=name, zorder=4,
                          **style)]


def _beside(axes: Axes, plot: Plot) -> Any:
    """The line against an axis on the right."""
    other = axes.twinx()
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    other.set_ylabel(plot.beside_label)
    line = other.plot(*zip(*plot.beside, strict=True), color="#777777", linestyle=DASHES[2], linewidth=1.3,
                      label=plot.beside_label)[0]
    other.set_ylim(bottom=0)
    return line


def _by_seed(row: Row, measured: RowSummary, results: Results, paper: str) -> list[float]:
    """Single values; a reduction has none of its own."""
    if measured.ours.best is None or row.less_than:
        return []
    number = measure(row.measure)
    values = [number(run.records) for run in results.seeds(paper, measured.ours.best) if run.finished]
    return [value for value in values if value is not None]


def _mark_places(axes: Axes, places: list[float], plot: Plot) -> None:
    if plot.log_x:
        axes.set_xscale("log")
        if len(places) <= _MOST_PLACES:
            span = math.log(places[-1] / places[0])
            marked = places[:1]
            for place in places[1:]:
                if math.log(place / marked[-1]) >= _APART * span:
                    marked.append(place)
            axes.set_xticks(marked, [f"{place:.3g}" for place in marked])
            axes.set_xticks([], minor=True)
    listed = re.fullmatch(r"(.*) \((.*)\)", plot.x_label)
    names = listed[2].split(", ") if listed else []
    if listed and len(names) == len(places) and len(names) > 1:
        axes.set_xticks(places, names)
        axes.set_xlabel(listed[1])
