"""Numbers over rounds: one line per row, one panel per number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from askew.papers.item import Row
from askew.papers.store import Results, Run
from askew.papers.summary import ItemSummary, RowSummary
from askew.report.canvas import DASHES, Axes, Figure, in_percent, whole_rounds
from askew.report.palette import class_colours

COLOURS = class_colours(10)[:9]  # the tenth is too pale for a line
PAPER = "#222222"  # what the paper printed
_BAND = 150  # points of a band: more cannot be seen, and every one is a line of the file


@dataclass(frozen=True)
class Line:
    """A row with the runs that it is drawn from.

    Args:
        style: colour and dashes.
    """

    row: Row
    summary: RowSummary
    runs: Sequence[Run]
    style: dict[str, Any]


def lines(summary: ItemSummary, results: Results) -> list[Line]:
    """The rows that have a finished run. Rows that show one run from several sides are one line."""
    result, seen = [], set()
    for row, measured in zip(summary.item.rows, summary.rows, strict=True):
        recipe = measured.ours.best or (row.recipes[0] if row.recipes else None)
        if recipe is None or recipe.fingerprint in seen:
            continue
        seen.add(recipe.fingerprint)
        at = len(seen) - 1  # by the item's order, so that a row keeps its colour as others are measured
        style = {"color": COLOURS[at % len(COLOURS)], "linestyle": DASHES[at // len(COLOURS) % len(DASHES)]}
        runs = [run for run in results.seeds(summary.item.paper, recipe) if run.finished]
        if runs:
            result.append(Line(row, measured, runs, style))
    return result


def draw_curves(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """The mean over seeds in each round, with a band of one standard deviation; rings show what the paper printed."""
    plot = summary.item.plot
    assert plot is not None
    drawn = lines(summary, results)
    panels = figure.subplots(1, len(plot.y), squeeze=False).flatten()
    handles: dict[int, Any] = {}
    for axes, key in zip(panels, plot.y, strict=True):
        for at, line in enumerate(drawn):
            rounds, values = over_seeds(line.runs, key)
            if len(rounds):
                handles[at] = curve(axes, rounds, values, **line.style)
        printed = [(line, line.summary.paper.value) for line in drawn if line.summary.paper and _is_level(line, key)]
        for line, value in printed:
            axes.plot(1.0, value / 100, "o", transform=axes.get_yaxis_transform(), clip_on=False, markersize=6,
                      markerfacecolor="white", markeredgecolor=line.style["color"], markeredgewidth=1.4, zorder=5)
        axes.set(xlabel=plot.x_label, title=key.replace("_", " ") if len(plot.y) > 1 else "")
        axes.title.set(fontsize=9.5, color="#333333")
        if plot.log_x:
            axes.set_xscale("log")
        else:
            whole_rounds(axes)
        percent(axes, key)
    panels[0].set_ylabel(plot.y_label)
    names = [_label(drawn[at]) for at in handles]
    figure.legend(handles=list(handles.values()), labels=names, loc="outside right upper", frameon=False, fontsize=8.5,
                  handlelength=2.6, alignment="left")


def over_seeds(runs: Sequence[Run], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Rounds in which all runs have the number, and its values, one line of them a run."""
    columns = [dict(zip(run.records["round"], run.records.get(key, ()), strict=False)) for run in runs]
    rounds = [r for r, value in columns[0].items() if all(isinstance(c.get(r), int | float) for c in columns)]
    return np.array(rounds), np.array([[float(c[r]) for r in rounds] for c in columns])


def curve(axes: Axes, rounds: np.ndarray, values: np.ndarray, **style: Any) -> Any:
    """Mean and, of several runs, standard deviation."""
    mean = values.mean(axis=0)
    if len(values) > 1:
        some = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), _BAND)).round().astype(int))
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(rounds[some], (mean - spread)[some], (mean + spread)[some], color=style["color"], alpha=0.16,
                          linewidth=0)
    return axes.plot(rounds, mean, linewidth=1.5, marker="o" if len(rounds) == 1 else None, **style)[0]


def percent(axes: Axes, key: str) -> None:
    """Fractions of accuracy are shown in per cent."""
    if "accuracy" in key:
        in_percent(axes.yaxis)


def _is_level(line: Line, key: str) -> bool:
    """Whether a row's number is one that its curve reaches: not a reduction, not of another key."""
    return key == "accuracy" and line.summary.unit == "%" and not line.row.less_than


def _label(line: Line) -> str:
    ours, paper = line.summary.ours.mean, line.summary.paper
    value = "" if ours is None else f"  {ours:.1f}" if line.summary.unit == "%" else f"  {ours:.3g}"
    ring = f" (paper \u25cb {'about ' if paper.about else ''}{paper.value:g})" if paper else ""
    return line.summary.name + value + ring
