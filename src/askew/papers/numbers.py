"""The papers' own numbers, read from `askew/papers/PAPER/numbers.toml`.

One table per item:

    [table3-mnist]
    where = "table 3, p. 5"
    unit = "%"
    [table3-mnist.rows]
    "IID, B 10" = 98.69
    "non-IID(1), B 10" = {value = 92.17, spread = 0.4}
    "as the text says" = {value = 35, about = true}
    "until it converges" = {value = 50, unit = "rounds"}
    "table 3's number, rounded" = {value = 44, about = true, again = true}
"""

from __future__ import annotations

import numbers as number_types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError
from askew.core.recipe import read_file
from askew.papers.item import Item

FOLDER = Path(__file__).parent
KEYS = {"where", "unit", "rows"}
ROW_KEYS = {"value", "spread", "about", "unit", "again"}


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints.

    Args:
        value: in `unit`.
        spread: its standard deviation, where the paper gives one.
        about: whether it is an approximate reading of the text ("about 35%").
        where: its place in the paper.
        unit: "%" for accuracies, else what the measure counts; of the row, or of the whole table.
        again: whether the paper has it from another of its items; it is shown, but counted there.
    """

    value: float
    spread: float | None = None
    about: bool = False
    where: str = ""
    unit: str = "%"
    again: bool = False


def printed(item: Item) -> dict[str, Printed]:
    """Row -> the number that the paper prints for it; rows without one are left out.

    Raises:
        AskewError: where the file names a row that the item does not have.
    """
    path = FOLDER / item.paper / "numbers.toml"
    if not path.is_file():
        return {}
    table = read_file(path).get(item.name, {})
    if unknown := sorted(set(table) - KEYS):
        raise AskewError(f"{item.paper}/{path.name}: [{item.name}] has no key {unknown[0]!r}; "
                         f"known: {', '.join(sorted(KEYS))}")
    rows = {name: _read(f"{item.paper}/{path.name}: {item.name}: {name}", value, table)
            for name, value in table.get("rows", {}).items()}
    for name in rows:
        if name not in {row.name for row in item.rows}:
            raise AskewError(f"{item.paper}/{path.name}: {item.address} has no row {name!r}; "
                             "give the number the name of one of its rows")
    return rows


def _read(place: str, value: Any, table: Mapping[str, Any]) -> Printed:
    given = value if isinstance(value, dict) else {"value": value}
    if not isinstance(given.get("value"), number_types.Real) or set(given) - ROW_KEYS:
        raise AskewError(f"{place}: write a number or {{value = ..., spread = ..., about = true, unit = ..., again = "
                         f"true}}, not {value!r}")
    spread = given.get("spread")
    return Printed(float(given["value"]), None if spread is None else float(spread), bool(given.get("about", False)),
                   str(table.get("where", "")), str(given.get("unit", table.get("unit", "%"))),
                   bool(given.get("again", False)))
