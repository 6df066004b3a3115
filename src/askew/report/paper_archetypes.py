"""Devices in archetypes over rounds: accuracies, how much these swing, which models they prefer (fedcd2020)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from askew.core.recipe import Recipe
from askew.papers.archetype_measures import changes
from askew.papers.store import Results, Run
from askew.papers.summary import ItemSummary
from askew.report.canvas import DASHES, Axes, Figure, whole_rounds
from askew.report.palette import class_colours
from askew.report.paper_curves import curve, lines, percent


def draw_archetypes(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """One panel per method, one line per archetype: means over seeds (fedcd2020, figures 1 and 4)."""
    plot = summary.item.plot
    assert plot is not None
    drawn = lines(summary, results)
    panels = figure.subplots(1, len(drawn), sharey=True, squeeze=False).flatten()
    handles: list[Any] = []
    for axes, line in zip(panels, drawn, strict=True):
        rounds, values = _lists(line.runs, plot.y[0])
        colours = class_colours(values.shape[2])
        handles = [axes.plot(rounds, values[:, :, k].mean(axis=0), color=colours[k], linestyle=DASHES[k // 5 % 4],
                             linewidth=1.3, label=str(k))[0]
                   for k in range(values.shape[2])]
        axes.set_title(line.summary.name, fontsize=9.5, color="#333333")
        axes.set_xlabel(plot.x_label)
        whole_rounds(axes)
        percent(axes, plot.y[0])
        _mark_milestones(axes, line.runs[0])
    panels[0].set_ylabel(plot.y_label)
    figure.legend(handles=handles, title="archetype", loc="outside right upper", frameon=False, fontsize=8.5,
                  alignment="left")


def draw_changes(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """The mean absolute change from round to round (fedcd2020, figures 2 and 5)."""
    plot = summary.item.plot
    assert plot is not None
    axes = figure.subplots()
    for line in lines(summary, results):
        rounds, _ = _lists(line.runs, "group_accuracy")
        values = np.array([changes(run.records) for run in line.runs])
        label = f"{line.summary.name}  {line.summary.ours.mean:.2g} points at the end"
        curve(axes, rounds[1:], values, label=label, **line.style)
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label)
    axes.set_ylim(bottom=0)
    whole_rounds(axes)
    percent(axes, "accuracy")
    axes.legend(frameon=False, fontsize=8.5)


def draw_preferences(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """A bar an archetype, coloured by the model that it prefers in each round; one seed (fedcd2020, figure 7)."""
    from matplotlib.patches import Patch

    plot = summary.item.plot
    assert plot is not None
    axes = figure.subplots()
    line = lines(summary, results)[0]
    run = line.runs[0]
    rounds, values = _lists([run], plot.y[0])
    chosen = values[0].astype(int)
    models = sorted(set(chosen.flatten().tolist()))
    colours = dict(zip(models, class_colours(len(models)), strict=True))
    for archetype in range(chosen.shape[1]):
        at = 0
        for model, stretch in groupby(chosen[:, archetype].tolist()):
            length = len(list(stretch))
            axes.barh(archetype, length, left=rounds[at] - 0.5, height=0.8, color=colours[model], linewidth=0)
            at += length
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label, ylim=(chosen.shape[1] - 0.4, -0.6),
             yticks=range(chosen.shape[1]))
    axes.grid(visible=False)
    whole_rounds(axes)
    _mark_milestones(axes, run)
    figure.legend(handles=[Patch(color=colours[m], label=str(m)) for m in models], title=f"model (seed {run.seed})",
                  loc="outside right upper", frameon=False, fontsize=8.5, alignment="left", handlelength=1.0,
                  handleheight=1.0)


def _lists(runs: Any, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Rounds in which the number is there, and values [run, round, entry]."""
    kept = [[(r, v) for r, v in zip(run.records["round"], run.records.get(key, ()), strict=False) if v is not None]
            for run in runs]
    return np.array([r for r, _ in kept[0]]), np.array([[v for _, v in pairs] for pairs in kept])


def _mark_milestones(axes: Axes, run: Run) -> None:
    """Where models are cloned."""
    milestones = Recipe.from_toml(run.recipe).pool.args.get("milestones", ())
    for at in milestones:
        axes.axvline(at + 0.5, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
