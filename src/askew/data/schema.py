"""A schema: how tables at several places become the same inputs. Plain JSON, which a person can read before it is sent.

It holds names of columns, categories, vocabulary and what stands for an empty cell, as `Columns` has them: measured in
one table (a pilot's, one that was pooled for a study) and used for all others, in which nothing is measured then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from askew.core.cells import Values, words
from askew.core.columns import Columns, Unknown
from askew.core.errors import AskewError, first_line, shown, suggest
from askew.core.files import MEGABYTE, read_text
from askew.data.features import MOST_CELLS

SCHEMA = "schema.json"  # in an app, and in the folder of a run
FORMAT = 1
LARGEST = 16 * MEGABYTE  # a vocabulary of a million words
NO_FILL = ("the schema has nothing to stand for them: say missing='drop', mend the table, or make the schema from a "
           "table that is read with missing='mean' or 'indicator'")


def schema_text(columns: Columns) -> str:
    """A schema as JSON; without how one table is written: its decimal mark and delimiter.

    Example:
        >>> from askew.core.columns import Feature
        >>> columns = Columns((Feature("age", fill=40.0),), ("ill",), missing="mean", decimal=",")
        >>> parse_schema(schema_text(columns), "schema.json") == Columns(columns.features, ("ill",), missing="mean")
        True
    """
    kept = {name: columns.as_mapping()[name] for name in ("features", "text", "label", "client", "others", "missing")}
    return json.dumps({"format": FORMAT, **kept}, indent=1, ensure_ascii=False) + "\n"


def parse_schema(text: str, where: str) -> Columns:
    """From what `schema_text` gave; whatever else it is given is refused.

    Args:
        where: it comes from, for errors.
    """
    try:
        value = json.loads(text)
        version = value.pop("format", None) if isinstance(value, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise AskewError(f"it was written by a newer version of askew (format {version}, known: {FORMAT})")
        columns = Columns.from_mapping(value)
        if not columns.used:
            raise AskewError("it names no column for the inputs")
        return columns
    except (AskewError, ValueError, RecursionError) as error:  # 5,000 digits are a ValueError
        raise AskewError(f"{where} is no schema: {first_line(error)}; take one that askew deploy init wrote") from None


def read_schema(path: str | Path) -> Columns:
    """From a file."""
    path = Path(path).expanduser()
    return parse_schema(read_text(path, "schema", LARGEST), repr(str(path)))


def check_agrees(where: str, schema: Columns, names: Sequence[str], features: Sequence[str] | None,
                 drop: Sequence[str] | None, categories: Sequence[str] | None, text: str | None) -> None:
    """Refuse a table that lacks a column of the schema, and arguments of `table` that say something else.

    Args:
        where: the table, for errors.
        names: of its columns.
    """
    used, numbers = schema.used, {f.name for f in schema.features if f.categories is None}
    for name in used:
        if name not in names:
            raise AskewError(f"{where}: no column {shown(name)}, which the schema names; {suggest(name, names[:100])}")
    odd: dict[str, Any] = {
        "features": next(iter(set(features if features is not None else used) ^ set(used)), None),
        "drop": next((name for name in drop or () if name in used), None),
        "categories": next((name for name in categories or () if name in numbers), None),
        "text": text if schema.text is None or text not in (None, schema.text.name) else None}
    for argument, name in odd.items():
        if name is not None:
            raise AskewError(f"{where}: {argument} says of column {shown(name)} something else than the schema does; "
                             f"leave {argument} out")


def encode_by(schema: Columns, where: str, columns: Mapping[str, Values], unknown: Unknown, rows: np.ndarray) -> Tensor:
    """A table's rows as the schema's inputs.

    Args:
        unknown: what becomes of a category that it does not name.
        rows: their numbers in the table, from 0, for errors.
    """
    width = sum(len(feature.categories or ()) for feature in schema.features)
    if len(rows) * width > MOST_CELLS:
        raise AskewError(f"{where}: {width:,} categories of the schema over {len(rows):,} rows would take "
                         f"{4 * len(rows) * width / 1e9:,.1f} GB; make a schema with fewer")
    for feature in schema.features if unknown == "refuse" else ():
        known = None if feature.categories is None else {*feature.categories, None}
        strange = next(((at, word) for at, word in enumerate(words(columns[feature.name])) if word not in known),
                       None) if known else None
        if strange:
            at, word = strange
            raise AskewError(f"{where}: column {feature.name!r} holds {shown(word)} in row {rows[at] + 1}, which is "
                             "none of the schema's categories: mend it, or say unknown='none' to count it as none of "
                             f"them; {suggest(word, (feature.categories or ())[:100])}")
    return schema.encode(where, columns, unknown, rows)
