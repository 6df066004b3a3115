"""How the score depends on settings: of runs that differ in numbers, a line over each, and a map over two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from askew.report.page.blocks import Choice, Figure, Section, Text, axis, heat_map, hover, line, points, ticks
from askew.report.page.labels import differing, settings
from askew.report.page.report import Measure, Report, Series

_MOST_LINES = 32


def section(report: Report) -> Section | None:
    federated = [series for series in report.series if not series.in_one_place]
    if len({series.first.recipe.name for series in federated}) != 1:
        return None
    flat = {series.label: settings(series.first.recipe) for series in federated}
    keys = differing([series.first.recipe for series in federated])
    numbers = [key for key in keys if all(_number(one.get(key)) is not None for one in flat.values())]
    scored = [series for series in federated if series.each(report.measure.last)[0] is not None]
    if not numbers or len(scored) < 2:
        return None
    options = [(key, [_lines(scored, flat, key, keys, report.measure)]) for key in numbers]
    if len(numbers) > 1:
        options.append((f"{numbers[0]} and {numbers[1]}", [_map(scored, flat, numbers[:2], report.measure)]))
    blocks: list[Any] = [Choice("setting", "Over", options)] if len(options) > 1 else list(options[0][1])
    return Section("settings", "What the settings do", [*blocks, Text(
        f"{report.measure.name.capitalize()} after the last round, mean over seeds, not the best round. Bars reach one "
        "standard deviation to either side.")])


def _number(text: str | None) -> float | None:
    """A setting's value, where it is a number that a plot can place."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _scale(values: list[float]) -> dict[str, Any]:
    """Rates and the like, which go over powers of ten, on a logarithmic axis."""
    low, high, places = min(values), max(values), sorted(set(values))
    if low <= 0 or high / low < 8:
        return {}
    few = {"tickvals": places, "ticktext": [f"{v:g}" for v in places]} if len(places) <= 12 else {}
    return {"type": "log", **few}


def _lines(scored: list[Series], flat: dict[str, dict[str, str]], key: str, keys: list[str],
           measure: Measure) -> Figure:
    """One line for each combination of the other settings."""
    groups: dict[str, list[Series]] = {}
    for series in scored:
        others = ", ".join(f"{other}={flat[series.label].get(other, '')}" for other in keys if other != key)
        groups.setdefault(others, []).append(series)
    looks = [line(at, label, f"setting {key} {label}") for at, label in enumerate(groups)][:_MOST_LINES]
    data = []
    for look, members in zip(looks, groups.values(), strict=False):
        x, y, spreads = map(list, zip(*sorted((_number(flat[series.label][key]) or 0.0, *series.each(measure.last))
                                              for series in members), strict=True))
        data.append(points(look, x, y, mode="lines+markers", name=look.label or measure.name,
                           error_y={"type": "data", "array": [spread or 0.0 for spread in spreads],
                                    "color": look.colour, "thickness": 1, "width": 3},
                           marker={"color": look.colour, "size": 7},
                           hovertemplate=hover("y", measure.is_share) + " at %{x}"))
    places = [_number(flat[series.label][key]) or 0.0 for series in scored]
    layout = {"xaxis": axis(key, **_scale(places)), "hovermode": "closest",
              "yaxis": axis(measure.name, measure.is_share)}
    return Figure(data, layout, f"{measure.name} over {key}", lines=looks)


def _map(scored: list[Series], flat: dict[str, dict[str, str]], keys: list[str], measure: Measure) -> Figure:
    """The best of the series at each place."""
    best = max if measure.higher_is_better else min
    columns, rows = (sorted({_number(flat[series.label][key]) or 0.0 for series in scored}) for key in keys)
    cells: list[list[float | None]] = [[None] * len(columns) for _ in rows]
    for series in scored:
        across, down = (_number(flat[series.label][key]) or 0.0 for key in keys)
        at, under = columns.index(across), rows.index(down)
        mean, before = series.each(measure.last)[0], cells[under][at]
        cells[under][at] = mean if before is None or mean is None else best(before, mean)
    known = np.array([cell for row in cells for cell in row if cell is not None])
    text = [["" if cell is None else measure.shown(cell) for cell in row] for row in cells]
    data = heat_map(cells, {"tickformat": ".0%"} if measure.is_share else {}, zmin=known.min(), zmax=known.max(),
                    text=text, texttemplate="%{text}", hovertemplate="%{text}<extra></extra>")
    layout = {name: axis(key, showgrid=False, **ticks([f"{v:g}" for v in values]))
              for name, key, values in (("xaxis", keys[0], columns), ("yaxis", keys[1], rows))}
    return Figure([data], layout, f"{measure.name} over {keys[0]} and {keys[1]}", height=140 + 40 * min(len(rows), 12))
