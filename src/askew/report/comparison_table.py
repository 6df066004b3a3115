"""A comparison of methods as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from askew.core.recipe import Recipe

_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
Row = Mapping[str, Any]  # a method's entry of `Comparison.as_mapping`
Column = tuple[str, Callable[[Row], str], str]  # its heading, what it says of a row, by which number the best is bold

WAYS_TO_END = ("diverged", "failed")  # before the last round, but for Ctrl-C


def method_rows(comparison: Mapping[str, Any], title: str | None = None) -> Table:
    """One row for each method that has finished a seed or diverged: the ceiling, methods with one global model by
    accuracy, then those with several models. The best of one global model is bold; `needs_line` explains the marks.

    Args:
        comparison: what `Comparison.as_mapping` gives.
        title: above the table.
    """
    rows = [row for row in comparison["methods"] if row["seeds"] or any(row.get(how) for how in WAYS_TO_END)]
    uneven = len({len(row["seeds"]) + len(row["diverged"]) for row in rows}) > 1
    table, columns = _table(title), _columns(rows, comparison["judge"] == "devices", comparison["target"])
    table.add_column("method", min_width=24, overflow="fold")
    for name in (*(name for name, _, _ in columns), *(["seeds"] if uneven else [])):
        table.add_column(name, justify="right", no_wrap=True)
    champions = _champions([row for row in rows if _kind(row) == 1 and not row["diverged"]])
    marks = {need: mark for mark, need in zip(_MARKS, _all_needs(rows), strict=False)}
    for kind in range(3):
        members = sorted((row for row in rows if _kind(row) == kind), key=lambda row: -(row["accuracy_mean"] or 0.0))
        for row in members:
            cells = _cells(row, columns, champions)
            cells[0].append("".join(f" {marks.get(need, '')}" for need in _needs(row)), style="dim")
            table.add_row(*cells, *([str(len(row["seeds"]))] if uneven else []))
        table.add_section()
    return table


def needs_line(rows: Sequence[Row]) -> str:
    """What the marks in the table stand for: what a method has that the others have not."""
    return "  ".join(f"{mark} {need}" for mark, need in zip(_MARKS, _all_needs(rows), strict=False))


def skew_rows(rows: Sequence[Row], title: str | None = None) -> Table:
    """What skew costs: one row per federation, with its loss against training in one place.

    Args:
        rows: `name`, `emd` (None for training in one place), `accuracy_mean`, `accuracy_std`, `loss`.
    """
    table = _table(title)
    for name in ("", "EMD", "accuracy %", "loss"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        loss = "" if row["loss"] is None else f"{100 * row['loss']:+.1f}"
        table.add_row(row["name"], "" if row["emd"] is None else f"{row['emd']:.2f}", _spread(row), loss)
    return table


def divergence_lines(rows: Sequence[Row]) -> list[str]:
    """One line for each method that diverged or failed: in how many of its seeds, and why."""
    lines = []
    for row in rows:
        seeds = len(row["seeds"]) + sum(len(row.get(how, [])) for how in WAYS_TO_END)
        lines += [f"{row['name']} {how} in {len(lost)} of {seeds} seeds: seed {lost[0]['seed']}, {lost[0]['reason']}"
                  for how in WAYS_TO_END if (lost := row.get(how))]
    return lines


def _kind(row: Row) -> int:
    """0: all data in one place; 1: one global model; 2: several."""
    return 2 if row["personal"] else 0 if row["in_one_place"] else 1


def _champions(rows: Sequence[Row]) -> dict[str, float]:
    best = {}
    for key, sign in (("accuracy_mean", 1), ("test_accuracy_mean", 1), ("best_accuracy", 1), ("gap_closed", 1),
                      ("rounds_to_target", -1)):
        values = [sign * row[key] for row in rows if row[key] is not None]
        if len(values) > 1:
            best[key] = sign * max(values)
    return best


def _columns(rows: Sequence[Row], by_devices: bool, target: float | None) -> list[Column]:
    """Those of numbers; where no row has a number of a kind, it has no column."""
    columns: list[tuple[bool, Column]] = [
        (True, ("accuracy on\nown data" if by_devices else "accuracy\n%", _spread, "accuracy_mean")),
        (by_devices, ("accuracy on\ntest set", partial(_spread, key="test_accuracy"), "test_accuracy_mean")),
        (True, ("best\n(round)", lambda row: f"{100 * row['best_accuracy']:.1f} ({row['best_round']})",
                "best_accuracy")),
        (True, ("rounds to\ntarget" if target is None else f"rounds to\n{target:.1%}", _rounds, "rounds_to_target")),
        (any(row["gap_closed"] is not None for row in rows), (
            "gap\nclosed", lambda row: "" if row["gap_closed"] is None else f"{row['gap_closed']:.0%}", "gap_closed")),
        (True, ("sent\nMB", lambda row: f"{row['bytes'] / 1e6:,.1f}" if row["bytes"] else "", "")),
        (any(row.get("dropped") for row in rows), (
            "updates\nleft out", lambda row: f"{row['dropped']:,.0f}" if row.get("dropped") else "", "")),
        (True, ("time\ns", lambda row: f"{row['seconds']:.1f}", ""))]
    return [column for is_shown, column in columns if is_shown]


def _cells(row: Row, columns: Sequence[Column], champions: Mapping[str, float]) -> list[Text]:
    def cell(text: str, key: str) -> Text:
        best = row[key] is not None and row[key] == champions.get(key) and _kind(row) == 1 if key else False
        return Text(text, style="bold" if best else "")

    ends = [how for how in WAYS_TO_END if row.get(how)]
    if not row["seeds"]:
        return [Text(row["name"]), Text(" and ".join(ends), style="red"), *[Text("")] * (len(columns) - 1)]
    cells = [cell(row["name"], "accuracy_mean"), *(cell(what(row), key) for _, what, key in columns)]
    if ends:
        cells[1].append(f" ({', '.join(f'{len(row[how])} {how}' for how in ends)})", style="red")
    return cells


def _spread(row: Row, key: str = "accuracy") -> str:
    mean, std = row[f"{key}_mean"], row[f"{key}_std"]
    return f"{100 * mean:.1f}" + ("" if std is None else f" ± {100 * std:.1f}")


def _rounds(row: Row) -> str:
    """Mean rounds to the target; where not every seed got there, how many did."""
    if row["rounds_to_target"] is not None:
        return f"{row['rounds_to_target']:.0f}"
    reached = [r for r in row["rounds_to_target_by_seed"] if r is not None]
    return f"{len(reached)} of {len(row['seeds'])}" if reached else "never"


def _needs(row: Row) -> list[str]:
    return needs(Recipe.from_mapping(row["settings"]), row["personal"])


def needs(recipe: Recipe, personal: bool) -> list[str]:
    """What a method has that others have not.

    Args:
        personal: whether clients keep tensors of their own.
    """
    population = recipe.population
    held = population.get("hold_out")
    privileges = []
    if held is not None:
        place = "shared with all clients" if population.get("share") else "at the server"
        privileges.append(f"{100 * held.args['fraction']:.3g}% of the data {place}")
    if population.get("validation") is not None:
        privileges.append("a validation set on each device")
    elif personal:
        privileges.append("tensors of its own on each device")
    return privileges


def _all_needs(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(need for row in rows for need in _needs(row)))


def _table(title: str | None) -> Table:
    return Table(title=title, box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1),
                 header_style="bold", title_style="bold", title_justify="left")
