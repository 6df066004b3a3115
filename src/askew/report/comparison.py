"""A comparison of methods as one picture: accuracy over rounds, and where each method ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from askew.core.errors import AskewError
from askew.report import canvas
from askew.report.canvas import Axes, Figure
from askew.runs.comparison import Comparison, Contender

_CEILING = "#111111"
_BASELINE = "#bd1f01"


def plot_comparison(comparison: Comparison, *paths: str | Path) -> None:
    """Write the picture: on the left the mean over seeds in each round, on the right every method's last round.

    Rows on the right are the legend of the lines on the left. A band or bar spans one standard deviation over seeds to
    either side. Where methods are judged by devices, a ring shows the accuracy on the whole test set.

    Args:
        comparison: with at least one finished run.
        paths: .png, .svg or .pdf.
    """
    files = [canvas.check_plot_path(path, overwrite=True) for path in paths]
    rows = _in_order(comparison)
    if not rows:
        raise AskewError("plot: no run of the comparison has finished")
    styles = _styles(comparison)

    def draw(figure: Figure) -> None:
        curves, ends = figure.subplots(1, 2, width_ratios=[1.2, 1.0])
        _curves(curves, rows, comparison, styles)
        _ends(ends, rows, comparison, styles)
        recipe = rows[-1].recipe
        number = len(comparison.seeds)
        figure.suptitle(f"{recipe.data.name}, {recipe.population}: {recipe.rounds} rounds, "
                        f"{number} seed{'s' if number > 1 else ''}", fontsize=10.5, fontweight="bold", color="#222222")

    canvas.save_figure(files, draw, (11.5, max(4.0, 1.3 + 0.27 * len(rows))))


def _in_order(comparison: Comparison) -> list[Contender]:
    """As in the table: the ceiling, one global model by accuracy, several models."""
    kinds = {c.label: 0 if c.is_ceiling else 2 if c.personal else 1 for c in comparison.contenders}
    finished = [c for c in comparison.contenders if c.finished]
    return sorted(finished, key=lambda c: (kinds[c.label], -(c.mean(comparison.judge) or 0.0)))


def _styles(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each line, by the caller's order, so that they do not change with the results."""
    others = [c for c in comparison.contenders if not c.is_ceiling and c.recipe.name != "fedavg"]
    styles: dict[str, dict[str, Any]] = {
        c.label: {**style, "linewidth": 1.5}
        for c, style in zip(others, canvas.line_styles(len(others), [_BASELINE]), strict=True)}
    for c in comparison.contenders:
        if c.label not in styles:
            styles[c.label] = {"color": _CEILING if c.is_ceiling else _BASELINE, "linestyle": "-", "linewidth": 2.4,
                               "zorder": 2.5}
    return styles


def _curves(axes: Axes, rows: list[Contender], comparison: Comparison, styles: dict[str, dict[str, Any]]) -> None:
    drawn: list[float] = []
    for contender in rows:
        rounds, values = contender.curve(comparison.judge)
        style = styles[contender.label]
        marker = "o" if len(rounds) == 1 else None
        axes.plot(rounds, values.mean(axis=0), **style, marker=marker)
        canvas.band(axes, rounds, values, style)
        drawn += values.mean(axis=0).tolist()
    if comparison.target is not None:
        axes.axhline(comparison.target, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(f"target {comparison.target:.1%}", (0.01, comparison.target), xycoords=("axes fraction", "data"),
                      xytext=(0, 3), textcoords="offset points", fontsize=7.5, color="#777777")
    canvas.in_percent(axes.yaxis, decimals=0)
    axes.set(xlabel="round", ylabel=_measure(comparison))
    canvas.fit_shares(axes, [*drawn, *([] if comparison.target is None else [comparison.target])])
    canvas.whole_rounds(axes)


def _ends(axes: Axes, rows: list[Contender], comparison: Comparison, styles: dict[str, dict[str, Any]]) -> None:
    from matplotlib.ticker import MaxNLocator

    by_devices = comparison.judge == "devices"
    places = np.arange(len(rows))
    for place, contender in zip(places, rows, strict=True):
        style = styles[contender.label]
        mean, std = contender.mean(comparison.judge) or 0.0, contender.std(comparison.judge) or 0.0
        axes.plot([-0.075, -0.012], [place, place], transform=axes.get_yaxis_transform(), clip_on=False, **style)
        if by_devices:
            on_test = contender.mean("global") or 0.0
            axes.plot([on_test, mean], [place, place], color=style["color"], linewidth=0.8, alpha=0.5, zorder=2)
            axes.plot(on_test, place, "o", markersize=7.5, markerfacecolor="white", markeredgecolor=style["color"],
                      zorder=3)
        axes.errorbar(mean, place, xerr=std, fmt="o", markersize=4.5, color=style["color"], elinewidth=1.4, capsize=2.5,
                      zorder=4)
        axes.annotate(f"{mean:.1%}", (1.015, place), xycoords=("axes fraction", "data"), va="center", fontsize=8,
                      color="#333333", annotation_clip=False)
    ceiling = next((c for c in rows if c.is_ceiling), None)
    if ceiling is not None:
        axes.axvline(ceiling.mean(comparison.judge) or 0.0, color=_CEILING, linewidth=0.8, zorder=1)
    axes.set_yticks(places, [contender.label for contender in rows], fontsize=8.5, color="#222222")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, pad=27)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    canvas.in_percent(axes.xaxis)
    ring = "    \u25cb whole test set" if by_devices else ""
    axes.set_xlabel(f"last round:  \u25cf {_measure(comparison).removeprefix('accuracy on the ')}{ring}")


def _measure(comparison: Comparison) -> str:
    return "accuracy on the clients' own data" if comparison.judge == "devices" else "accuracy on the test set"
