"""One run as a picture: the headline over rounds, and how its clients fare at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from askew.core.errors import AskewError
from askew.report import canvas
from askew.report.canvas import Axes, Figure
from askew.report.palette import class_colours
from askew.runs.result import Result


def plot_result(result: Result, path: str | Path | None = None) -> Figure:
    """The picture of a run that has been evaluated at least once.

    Args:
        path: .png, .svg or .pdf to write it to.
    """
    if path is not None:
        path = canvas.check_plot_path(path)
    if not result.evaluations:
        raise AskewError(f"plot: {result.title} has no evaluated round to draw")
    try:
        clients = result.evaluation["clients"]
    except AskewError:  # only numbers were kept
        clients = None

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 2 if clients else 1, squeeze=False)[0]
        _curve(axes[0], result)
        if clients:
            _clients(axes[1], result, np.array([score for score in clients["score"] if score is not None]))
        figure.suptitle(f"{result.title}: {result.outcome}", fontsize=10.5, fontweight="bold", color="#222222")

    figure = canvas.drawn_figure(draw, (9.0 if clients else 5.5, 3.6))
    if path is not None:
        canvas.write_figure(figure, path)
    return figure


def _curve(axes: Axes, result: Result) -> None:
    colours, name, dashed = class_colours(2), result.headline, canvas.DASHES[1]
    for key, label, colour, dashes in ((name, result.judged_on or name, colours[0], "-"),
                                       (f"held_out_{name}", "held-out training examples", colours[1], dashed)):
        points = [(record["round"], record[key]) for record in result.evaluations if key in record]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=dashes, linewidth=1.7, label=label,
                      marker="o" if len(points) == 1 else None)
    axes.set(xlabel="round", ylabel=name.replace("_", " "))
    canvas.whole_rounds(axes)
    if result.objective.is_share:
        canvas.in_percent(axes.yaxis)
    axes.legend(frameon=False, fontsize=8, loc="best")


def _clients(axes: Axes, result: Result, scores: np.ndarray) -> None:
    axes.hist(scores, bins=min(20, max(5, len(scores) // 2)), color=class_colours(1)[0], edgecolor="white")
    worst = scores.min() if result.objective.higher_is_better else scores.max()
    axes.axvline(float(worst), color=class_colours(3)[2], linewidth=1.2, linestyle=canvas.DASHES[1],
                 label=f"worst: {result.objective.shown(float(worst))}")
    axes.set(xlabel=f"{result.headline.replace('_', ' ')} of a client", ylabel="clients")
    if result.objective.is_share:
        canvas.in_percent(axes.xaxis)
    axes.legend(frameon=False, fontsize=8, loc="best")
