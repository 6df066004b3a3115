"""A sweep as a picture: the score over each setting, over the effective rate, and as a heat map of two settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from askew.core.errors import AskewError
from askew.report.canvas import DASHES, Axes, Figure, check_plot_path, in_percent, save_figure
from askew.report.palette import class_colours
from askew.runs.ranking import Setting

MOST_LINES = 9  # of other settings in one panel; more are points
MOST_AXES = 3  # panels over single settings
Panel = Callable[["Axes"], None]


def check_axes(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that are numbers and differ; refused, before any training, where there is none."""
    axes = numeric(settings)
    if not axes:
        raise AskewError("--plot draws scores over numbers, and no setting of the sweep has two of them; leave it out, "
                         "or add an axis such as --grid sgd.lr=0.01,0.1")
    return axes


def numeric(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Addresses, but for the seed, at which all values are numbers and not all the same."""
    return [key for key in settings[0] if key != "seed" and len({repr(s[key]) for s in settings}) > 1
            and all(isinstance(s[key], int | float) and not isinstance(s[key], bool) for s in settings)]


def effective_rate(values: Mapping[str, Any]) -> float | None:
    r"""$\eta / (1 - \beta)$ of a setting with a rate and a momentum: the step that momentum comes to in the long run.

    Example:
        >>> effective_rate({"sgd.lr": 0.1, "momentum.beta": 0.75}), effective_rate({"sgd.lr": 0.1})
        (0.4, None)

    References:
        Hsu et al. 2019, section 4.2.
    """
    rate = next((v for key, v in values.items() if key.endswith(".lr")), None)
    momentum = next((v for key, v in values.items() if key.endswith((".beta", ".momentum"))), None)
    if not all(isinstance(v, int | float) for v in (rate, momentum)) or rate is None or not 0 <= (momentum or 0) < 1:
        return None
    return float(rate / (1 - momentum)) if momentum is not None else None


def plot_sweep(settings: Sequence[Setting], path: str | Path) -> None:
    """Write the picture; bars span one standard deviation over seeds to either side.

    Args:
        settings: with numbers that differ; those of which no seed came through are left out.
        path: .png, .svg or .pdf.
    """
    path = check_plot_path(path, overwrite=True)
    drawn = [setting for setting in settings if setting.scores]
    if not drawn:
        raise AskewError("plot: no setting of the sweep has a score")
    axes = check_axes([setting.values for setting in settings])
    panels: list[Panel] = [_over(key, [s.values[key] for s in drawn], drawn, axes) for key in axes[:MOST_AXES]]
    rates = [effective_rate(setting.values) for setting in drawn]
    if all(rate is not None for rate in rates):
        panels.append(_over("effective rate", rates, drawn, axes))
    if len(axes) == 2 and 2 * len(drawn) > np.prod([len({s.values[key] for s in drawn}) for key in axes]):
        panels.append(_heat_map(axes, drawn))

    def draw(figure: Figure) -> None:
        for place, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            panel(place)

    save_figure(path, draw, (4.4 * len(panels), 3.8))


def _over(key: str, places: Sequence[Any], settings: Sequence[Setting], axes: Sequence[str]) -> Panel:
    """The score over one number, a line for each combination of the others, where they are few and repeat."""
    lines: dict[str, list[tuple[float, Setting]]] = {}
    for at, setting in zip(places, settings, strict=True):
        rest = ", ".join(f"{name}={value}" for name, value in setting.values.items() if name != key)
        lines.setdefault("" if key == "effective rate" else rest, []).append((float(at), setting))
    as_lines = len(lines) <= MOST_LINES and all(len(points) > 1 for points in lines.values()) and (
        key != "effective rate")
    if not as_lines:
        lines = {"": [point for points in lines.values() for point in points]}

    def draw(axes_: Axes) -> None:
        colours = class_colours(10)[:MOST_LINES]
        for at, (rest, points) in enumerate(lines.items()):
            points = sorted(points, key=lambda point: point[0])
            x, y = [x for x, _ in points], [setting.mean or 0.0 for _, setting in points]
            axes_.errorbar(x, y, yerr=[setting.std or 0.0 for _, setting in points], label=rest or None,
                           color=colours[at % len(colours)], marker="o", markersize=4, capsize=2.5, linewidth=1.5,
                           linestyle=DASHES[at % len(DASHES)] if as_lines else "none", zorder=3 + at % len(DASHES))
        values = [x for points in lines.values() for x, _ in points]
        if min(values) > 0 and max(values) >= 10 * min(values):
            axes_.set_xscale("log")
        axes_.set(xlabel=key, ylabel=_score(settings[0]))
        if settings[0].results[0].objective.is_share:
            in_percent(axes_.yaxis)
        if any(lines):
            axes_.legend(frameon=False, fontsize=7.5, handlelength=3)

    return draw


def _heat_map(axes: Sequence[str], settings: Sequence[Setting]) -> Panel:
    """The mean score of each pair of numbers; a pair that was not trained, or broke off, is blank."""
    rows, columns = (sorted({setting.values[key] for setting in settings}) for key in axes)

    def draw(axes_: Axes) -> None:
        sums, counts = np.zeros((2, len(rows), len(columns)))
        for setting in settings:
            at = rows.index(setting.values[axes[0]]), columns.index(setting.values[axes[1]])
            sums[at] += setting.mean or 0.0
            counts[at] += 1
        means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        shown = settings[0].results[0].objective.shown
        picture = axes_.imshow(means, cmap="viridis", aspect="auto", origin="lower")
        if means.size <= 64:
            middle = (np.nanmin(means) + np.nanmax(means)) / 2
            for (row, column), value in np.ndenumerate(means):
                if not np.isnan(value):
                    axes_.text(column, row, shown(float(value)), ha="center", va="center", fontsize=7.5,
                               color="white" if value < middle else "black")
        axes_.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
        axes_.set_xticks(range(len(columns)), [f"{value:g}" for value in columns], rotation=45)
        axes_.set(ylabel=axes[0], xlabel=axes[1])
        axes_.grid(visible=False)
        axes_.figure.colorbar(picture, ax=axes_, label=_score(settings[0]))

    return draw


def _score(setting: Setting) -> str:
    name = setting.results[0].headline.replace("_", " ")
    return f"{name}, last round" if setting.by == "last" else f"{name}, held-out examples"
