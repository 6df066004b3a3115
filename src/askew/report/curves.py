"""Numbers over rounds as pictures: methods side by side, and the lengths of a run's updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError
from askew.report import canvas
from askew.report.canvas import Axes, Figure
from askew.report.palette import class_colours

Records = Sequence[Mapping[str, Any]]

_NORMS = (("E", "E: mean length of the clients' updates"), ("N", "N: length of their mean"),
          ("server_step", "step that the server takes"))
_COLUMNS = 3  # panels in a row
_REMEDY = "name another file, or say overwrite=True"


def plot_curves(runs: Mapping[str, Records], path: str | Path, what: str = "accuracy",
                overwrite: bool = False) -> None:
    """Write a picture of one number over rounds, one line per run.

    Lines differ in colour and in dashes, so that they stay apart in print and for colour-blind readers; the legend
    lists them by their last value.

    Args:
        runs: name -> records of its rounds; rounds without the number (not evaluated) are passed over.
        path: .png, .svg or .pdf.
        what: the number, as the records call it; `accuracy` is shown in per cent.
        overwrite: whether a file that is there may be replaced.

    References:
        hsu2019, figure 3; fednnnn2020, figure 7.
    """
    path = canvas.check_plot_path(path, overwrite=overwrite, remedy=_REMEDY)
    points = {name: _points(records, what) for name, records in runs.items()}
    empty = [name for name, (rounds, _) in points.items() if not rounds]
    if empty or not points:
        raise AskewError(f"plot: {f'run {empty[0]!r} has' if empty else 'there are'} no rounds with {what!r} to draw")
    percent = "accuracy" in what
    ranked = sorted(points, key=lambda name: -points[name][1][-1])
    styles = canvas.line_styles(len(points))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for at, name in enumerate(points):  # colours by the caller's order: the same method keeps its colour
            rounds, values = points[name]
            last = f"{values[-1]:.1%}" if percent else f"{values[-1]:#.3g}"
            axes.plot(rounds, values, **styles[at], linewidth=1.7 if len(points) <= 6 else 1.4,
                      marker="o" if len(rounds) == 1 else None, label=f"{last}  {name}")
        axes.set(xlabel="round", ylabel=what.replace("_", " "))
        canvas.whole_rounds(axes)
        if percent:
            canvas.in_percent(axes.yaxis)
        handles, _ = axes.get_legend_handles_labels()
        by_rank = [handles[list(points).index(name)] for name in ranked]
        figure.legend(handles=by_rank, title="last value", loc="outside right upper", frameon=False, fontsize=8.5,
                      handlelength=3.2, alignment="left")

    canvas.save_figure(path, draw, (8.0, max(4.2, 1.2 + 0.2 * len(points))))


def plot_norms(records: Records, path: str | Path, title: str = "", overwrite: bool = False) -> None:
    """Write a picture of N and E over rounds: for the whole model and for each of its parts.

    The server's step is drawn where it is another one than N (methods with normalisation, momentum or training there).

    Args:
        records: of a run with the probe `update_norms`.
        path: .png, .svg or .pdf.
        title: above everything.
        overwrite: whether a file that is there may be replaced.

    References:
        fednnnn2020, figures 3, 8 and 9.
    """
    path = canvas.check_plot_path(path, overwrite=overwrite, remedy=_REMEDY)
    # A part is whatever stands behind "N": nothing for the whole, " conv", " fc", " layer3.conv1", ...
    parts = list(dict.fromkeys(key[1:] for record in records for key in record if key == "N" or key.startswith("N ")))
    if not parts:
        raise AskewError("plot: the records hold no N and E; run with the probe update_norms()")
    columns = min(len(parts), _COLUMNS)
    rows = -(-len(parts) // columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        handles: dict[str, Any] = {}
        for axes, part in zip(grid, parts, strict=False):
            handles |= _norm_lines(axes, records, part)
            axes.set_title(part.strip() or "whole model", fontsize=9.5, color="#333333")
            axes.set_ylim(bottom=0)
            canvas.whole_rounds(axes)
        for axes in grid[len(parts):]:
            axes.remove()
        for row in range(rows):
            grid[row * columns].set_ylabel("length (L2)")
        for axes in grid[max(0, len(parts) - columns):len(parts)]:
            axes.set_xlabel("round")
        order = [handles[label] for _, label in _NORMS if label in handles]
        figure.legend(handles=order, loc="outside lower center", ncols=len(order), frameon=False, handlelength=3.2)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", color="#222222")

    canvas.save_figure(path, draw, (1.0 + 3.0 * max(columns, 2), 0.9 + 2.5 * rows))


def _norm_lines(axes: Axes, records: Records, part: str) -> dict[str, Any]:
    drawn = {}
    lines = {key: _points(records, key + part) for key, _ in _NORMS}
    colours = class_colours(3)
    for (key, label), colour, dashes in zip(_NORMS, (colours[1], colours[0], colours[2]), ("-", "-", canvas.DASHES[1]),
                                            strict=True):
        rounds, values = lines[key]
        same = key == "server_step" and rounds == lines["N"][0] and all(
            abs(a - b) <= 1e-4 * max(a, b) for a, b in zip(values, lines["N"][1], strict=True))
        if rounds and not same:
            drawn[label] = axes.plot(rounds, values, color=colour, linestyle=dashes, linewidth=1.7, label=label,
                                     marker="o" if len(rounds) == 1 else None)[0]
    return drawn


def _points(records: Records, what: str) -> tuple[list[int], list[float]]:
    """Rounds and values, where there is one (a probe gives None where its number is undefined)."""
    chosen = [record for record in records if isinstance(record.get(what), int | float)]
    return [record["round"] for record in chosen], [float(record[what]) for record in chosen]
