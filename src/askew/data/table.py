"""Your own table: one row per example, in a CSV or Parquet file."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from torch import Tensor

from askew.core.bounds import Bounds
from askew.core.cells import Values, absent, numbers, take, words
from askew.core.columns import Columns, Feature, Missing, Text, Unknown, empty_cells
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, shown, suggest
from askew.core.registry import piece
from askew.core.targets import NUMBERS, Targets, numbered, read_targets
from askew.data.features import fit
from askew.data.labels import encode_labels
from askew.data.rows import Rows, read_rows
from askew.data.schema import NO_FILL, check_agrees, encode_by, read_schema
from askew.data.split import stratified_split

REMEDY = "say missing='mean', 'indicator' or 'drop' (--missing), or mend the table"
_CODE = re.compile(r"\s*[+-]?0[0-9]|.*_")


@piece("data")
def table(path: str, label: str | list[str], client: str | None = None, features: list[str] | None = None,
          test_fraction: float = 0.2, targets: Targets = "classes", drop: list[str] | None = None,
          categories: list[str] | None = None, missing: Missing = "refuse", delimiter: str | None = None,
          decimal: Literal[".", ","] = ".", text: str | None = None,
          vocabulary: Annotated[int, Bounds(3, 1_000_000)] = 1000,
          length: Annotated[int, Bounds(1, 100_000)] = 64, like: str | Columns | None = None,
          unknown: Unknown = "refuse") -> Dataset:
    """Rows of a CSV file (with a header line) or a Parquet file.

    A column of numbers is one input, a column of words (or one of `categories`) one input for each of its categories.
    Categories, means and vocabulary are those of the training rows; a category that only test rows have is none.

    Args:
        path: the file; .parquet or .pq is Parquet (needs pyarrow), all else is CSV.
        label: the column of the classes, whole numbers or words; of other targets the column, or a list of columns.
        client: the column that says who owns the row (numbers or words), if there is one: hospitals, users, sites.
        features: the columns that are the inputs; default: all other columns.
        test_fraction: share of the rows held out for the test, in equal proportions of each class.
        targets: what `label` names: "classes"; "numbers" to be learnt; several "labels", each a column of 0 and 1;
            "tokens", one column per place.
        drop: columns to leave out of the inputs.
        categories: columns of numbers that are codes, not amounts.
        missing: what becomes of empty cells (also NA, N/A, #N/A, NaN, null): "refuse" them; "mean" fills in the
            training rows' mean or most frequent category; "indicator" does so for numbers, and says in a further input
            that there was none; "drop" leaves such rows out.
        delimiter: between the cells of CSV; default: the one of , ; tab and | that is in the header most often.
        decimal: the mark between whole and fraction in CSV.
        text: a column of text, which is then the only input: the numbers of its words, of which the first `length`
            count, and the `vocabulary` most frequent ones are told apart.
        like: a schema, as `askew deploy init` writes it: inputs, categories, vocabulary and what stands for an empty
            cell are those that it says, and nothing is measured; columns that it does not name are left out.
        unknown: with `like`, what becomes of a category that it does not name: "refuse" it; "none" of the known ones.

    Returns:
        A data set of float32 inputs [N, inputs] (of text: int64 [N, length]) named after the file; classes and clients
        are the distinct values of their columns in order. Its `columns` say how rows become inputs.

    Example:
        data = table("visits.csv", label="diagnosis", client="hospital", missing="indicator")
        data = table("houses.csv", label="price", targets="numbers")
        data = table("notes.csv", label="urgent", text="note")
    """
    asked = [label] if isinstance(label, str) else list(label)
    path = os.path.expanduser(path)
    rows = read_rows(path, delimiter)
    special = [*asked, *([client] if client is not None else [])]
    schema = read_schema(like) if isinstance(like, str) else like
    for wanted in [*special, *(features or []), *(drop or []), *(categories or []), *([text] if text else [])]:
        if wanted not in rows:
            raise AskewError(f"{path}: no column {wanted!r}; {suggest(wanted, islice(rows, 100))}")
    if schema is None:
        chosen = _chosen(path, rows, special, features, drop, text)
    else:
        check_agrees(path, schema, list(rows), features, drop, categories, text)
        chosen, text = schema.used, None if schema.text is None else schema.text.name
        missing = "drop" if missing == "drop" else schema.missing
    for name in asked:
        if name in chosen:
            raise AskewError(f"{path}: label {name!r} is also among the features; a model would read the answer off it")
    flat = _flat(path, rows, [*special, *chosen])
    kept = _kept(path, flat, special, missing, text, REMEDY if schema is None else NO_FILL)
    columns = flat if len(kept) == len(flat[special[0]]) else {name: take(v, kept) for name, v in flat.items()}
    y, classes = _targets(path, columns, asked, targets, kept, decimal)
    train, test = stratified_split(y.numpy() if targets == "classes" else np.zeros(len(y)), test_fraction)
    others = tuple(name for name in rows if name not in (*chosen, *special))
    if schema is not None:
        about = replace(schema, label=tuple(asked), client=client, others=others, decimal=decimal, delimiter=delimiter)
        x = encode_by(about, path, columns, unknown, kept)
    else:
        known = None if text is None else Text.fit(text, take(columns[text], train), vocabulary, length)
        fitted = () if text is not None else fit(path, {name: columns[name] for name in chosen}, train,
                                                 categories or [], missing, decimal, kept)
        about = Columns(fitted, tuple(asked), client, others, missing, known, decimal, delimiter)
        x = about.encode(path, columns, unknown="none")
        _warn_of_unknown(path, columns, about.features, test)
    splits = [Examples(x[part], y[part]) for part in (train, test)]
    if client is None:
        return Dataset(Path(path).stem, splits[0], splits[1], classes, targets=targets, columns=about)
    (owner,), names = encode_labels(f"{path}: column {client!r}", label_values(columns[client]))
    return Dataset(Path(path).stem, splits[0], splits[1], classes, owner.numpy()[train], owner.numpy()[test], targets,
                   client_names=names, columns=about)


def _chosen(path: str, rows: Rows, special: list[str], features: list[str] | None, drop: list[str] | None,
            text: str | None) -> list[str]:
    """The columns that are the inputs."""
    if text is not None:
        if features is not None or text in special:
            raise AskewError(f"{path}: text={text!r} is the only input, and neither label nor client; leave features "
                             "out")
        return [text]
    inputs = features if features is not None else [name for name in rows if name not in special]
    inputs = [name for name in inputs if name not in (drop or [])]
    if not inputs:
        raise AskewError(f"{path}: no column is left for the inputs beside label {shown(special[0])}; give a table "
                         "with features")
    return inputs


def _flat(path: str, rows: Rows, wanted: list[str]) -> dict[str, Values]:
    flat: dict[str, Values] = {}
    for name in wanted:
        values = rows[name]
        if values is None:
            raise AskewError(f"{path}: column {name!r} holds lists or records; features must be numbers or words, "
                             "labels whole numbers or words, one per row")
        flat[name] = values
    return flat


def _kept(path: str, columns: dict[str, Values], special: list[str], missing: Missing, text: str | None,
          remedy: str) -> np.ndarray:
    """The rows that count: all, where no cell is empty that may not be; whole ones with missing="drop"."""
    empty = _with_gaps({name: absent(values) for name, values in columns.items() if name != text})
    rows = len(columns[special[0]])
    if missing == "drop":
        complete = np.flatnonzero(~np.logical_or.reduce([np.zeros(rows, bool), *empty.values()]))
        if len(complete) == 0:
            raise AskewError(f"{path}: missing='drop' leaves no row: {empty_cells(empty)}")
        return complete
    if gaps := {name: empty[name] for name in special if name in empty}:
        raise AskewError(f"{path}: {empty_cells(gaps)}; a row needs its label and client: say missing='drop' "
                         "(--missing), or mend the table")
    if empty and missing == "refuse":
        raise AskewError(f"{path}: {empty_cells(empty)}; {remedy}")
    return np.arange(rows)


def _with_gaps(empty: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: rows for name, rows in empty.items() if rows.any()}


def _targets(path: str, columns: dict[str, Values], asked: list[str],
             targets: Targets, kept: np.ndarray, decimal: str) -> tuple[Tensor, tuple[str, ...]]:
    """What is to be learnt of each row, and the names of that."""
    if targets == "classes":
        if len(asked) != 1:
            raise AskewError(f"{path}: label={asked} names {len(asked)} columns; classes are one column, several are "
                             "targets='numbers', 'labels' or 'tokens'")
        (y,), classes = encode_labels(f"{path}: column {asked[0]!r}", label_values(columns[asked[0]], float),
                                      remedy=NUMBERS)
        return y, classes
    if not asked:
        raise AskewError(f"{path}: label names no column; give at least one")
    values = [_numbers(path, name, columns[name], kept, decimal) for name in asked]
    y = read_targets(f"{path}: label", np.stack(values, axis=1), targets)
    return y, numbered(path, targets, y) if targets == "tokens" else tuple(asked)


def _numbers(path: str, name: str, values: Values, kept: np.ndarray, decimal: str) -> np.ndarray:
    """A column of targets as float32; the first value that is no finite number is named."""
    floats, bad = numbers(values, decimal)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise AskewError(f"{path}: column {name!r} holds {shown(values[row])} in row {kept[row] + 1}; targets must be "
                         "numbers: choose columns with label=[...] or clean the table")
    return floats


def _warn_of_unknown(path: str, columns: dict[str, Values], features: tuple[Feature, ...], test: np.ndarray) -> None:
    for feature in features:
        if feature.categories is not None:
            test_words = {word for word in words(take(columns[feature.name], test)) if word is not None}
            if new := sorted(test_words.difference(feature.categories)):
                warnings.warn(f"{path}: column {feature.name!r}: only rows for the test have {shown(new[0])}"
                              f"{f' and {len(new) - 1} more' if len(new) > 1 else ''}; there, it is none of the known "
                              "categories", stacklevel=3)


def label_values(values: Any, *further: type) -> Any:
    """CSV knows only words: a column of nothing but whole numbers (or of what `further` reads) is numbers.

    Codes are words: 007 is not 7, and 1_2 is not 12, as Python would read them. A whole number is one that is written
    as Python writes it, so that a client has one name here and in a prediction.

    Example:
        >>> label_values(["7", " 12"]), label_values(["007", "12"]), label_values(["1.0", "2"], float)
        ([7, 12], ['007', '12'], [1.0, 2.0])
    """
    if isinstance(values, np.ndarray):
        return values
    if not any(isinstance(value, str) and _CODE.match(value) for value in values):
        for number in (int, *further):
            try:
                parsed = [number(value) for value in values]
            except (ValueError, TypeError):
                continue
            pairs = zip(parsed, values, strict=True)
            if number is not int or all(str(whole) == str(value).strip() for whole, value in pairs):
                return parsed
    return [value.strip() if isinstance(value, str) else value for value in values]
