"""Your own table: one row an example, in a CSV or Parquet file."""

from __future__ import annotations

import csv
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.arrays import check_unpacked
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line, suggest
from askew.core.files import check_regular
from askew.core.registry import piece
from askew.core.targets import NUMBERS, Targets, numbered, read_targets
from askew.data.labels import encode_labels
from askew.data.split import stratified_split


@piece("data")
def table(path: str, label: str | list[str], client: str | None = None, features: list[str] | None = None,
          test_fraction: float = 0.2, targets: Targets = "classes") -> Dataset:
    """Rows of a CSV file (with a header line) or a Parquet file.

    Args:
        path: the file; .parquet or .pq is Parquet (needs pyarrow), all else is CSV.
        label: the column of the classes, whole numbers or words; of other targets the column, or a list of columns.
        client: the column that says who owns the row (numbers or words), if there is one: hospitals, users, sites.
        features: the columns that are the inputs, all numbers; default: all other columns.
        test_fraction: share of the rows held out for the test, in equal proportions of each class.
        targets: what `label` names: "classes"; "numbers" to be learnt; several "labels", each a column of 0 and 1;
            "tokens", one column per place.

    Returns:
        A data set of float32 inputs [N, features] named after the file; classes and clients are the distinct values
        of their columns in order.

    Example:
        data = table("visits.csv", label="diagnosis", client="hospital")
        data = table("houses.csv", label="price", targets="numbers")
    """
    asked = [label] if isinstance(label, str) else list(label)
    path = os.path.expanduser(path)
    check_regular(path, "CSV or Parquet file")
    columns = _read_parquet(path) if Path(path).suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    for wanted in [*asked, *([client] if client is not None else []), *(features or [])]:
        if wanted not in columns:
            raise AskewError(f"{path}: no column {wanted!r}; {suggest(wanted, islice(columns, 100))}")
    if features is None:
        features = [name for name in columns if name not in (*asked, client)]
    if not features:
        raise AskewError(f"{path}: no column is left for the inputs beside label {label!r}; give a table with features")
    for name in [*asked, *([client] if client is not None else []), *features]:
        if columns[name] is None:
            raise AskewError(f"{path}: column {name!r} holds lists or records; features must be numbers, labels whole "
                             "numbers or words, one per row")
    for name in asked:
        if name in features:
            raise AskewError(f"{path}: label {name!r} is also among the features; a model would read the answer off it")
    x = torch.from_numpy(np.stack([_numbers(path, name, columns[name]) for name in features], axis=1))
    y, classes = _targets(path, columns, asked, targets)
    train, test = stratified_split(y.numpy() if targets == "classes" else np.zeros(len(y)), test_fraction)
    splits = [Examples(x[part], y[part]) for part in (train, test)]
    if client is None:
        return Dataset(Path(path).stem, splits[0], splits[1], classes, targets=targets)
    (owner,), _ = encode_labels(f"{path}: column {client!r}", _label_values(columns[client]))
    return Dataset(Path(path).stem, splits[0], splits[1], classes, owner.numpy()[train], owner.numpy()[test], targets)


def _targets(path: str, columns: dict[str, Any], asked: list[str], targets: Targets) -> tuple[Tensor, tuple[str, ...]]:
    """What is to be learnt of each row, and the names of that."""
    if targets == "classes":
        if len(asked) != 1:
            raise AskewError(f"{path}: label={asked} names {len(asked)} columns; classes are one column, several are "
                             "targets='numbers', 'labels' or 'tokens'")
        (y,), classes = encode_labels(f"{path}: column {asked[0]!r}", _label_values(columns[asked[0]], float),
                                      remedy=NUMBERS)
        return y, classes
    if not asked:
        raise AskewError(f"{path}: label names no column; give at least one")
    y = read_targets(f"{path}: label",
                     np.stack([_numbers(path, name, columns[name], "targets") for name in asked], axis=1), targets)
    return y, numbered(path, targets, y) if targets == "tokens" else tuple(asked)


def _read_csv(path: str) -> dict[str, Any]:
    """Columns of strings."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AskewError(f"{path!r} cannot be read as CSV in UTF-8 ({error})") from None
    except OSError as error:
        raise AskewError(f"{path!r} cannot be read ({error.strerror or error}); "
                         "give the path of a CSV or Parquet file") from None
    rows = [row for row in rows if row]  # blank lines
    if len(rows) < 2:
        raise AskewError(f"{path}: {len(rows)} lines; a header line and at least one row are needed")
    header = rows[0]
    _check_once(path, header)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise AskewError(f"{path}: row {number} has {len(row)} values, the header {len(header)} columns")
    return dict(zip(header, zip(*rows[1:], strict=True), strict=True))


def _read_parquet(path: str) -> dict[str, Any]:
    """Columns as numpy arrays; None for those of lists or records, which are not read."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise AskewError(f"{path}: Parquet needs pyarrow; install it with 'pip install askew[tables]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            names, flat, words = file.schema_arrow.names, *_flat_columns(file)
            _check_once(path, names)
            check_unpacked(path, _unpacked(file), "write it without compression, or as CSV")
        # Words as places in a dictionary: one long word in a million rows is there once.
        with parquet.ParquetFile(path, read_dictionary=words) as file:
            read = file.read(columns=flat, use_threads=False)
        arrays = {name: _as_array(read.column(name)) if name in flat else None for name in names}
    except AskewError:
        raise
    except Exception as error:  # a damaged file fails in many ways: Arrow's own, the system's, Python's
        raise AskewError(f"{path!r} cannot be read as Parquet ({first_line(error)})") from None
    if read.num_rows == 0:
        raise AskewError(f"{path}: the table has no rows")
    return arrays


def _flat_columns(file: Any) -> tuple[list[str], list[str]]:
    """Columns of one value per row, and those of words among them; lists and records cannot be inputs or labels."""
    import pyarrow as arrow

    kinds = {field.name: field.type for field in file.schema_arrow}
    flat = [name for name, kind in kinds.items() if not arrow.types.is_nested(kind)]
    return flat, [name for name in flat if kinds[name] in (arrow.string(), arrow.binary())]


def _unpacked(file: Any) -> int:
    """Bytes that a Parquet file comes to by its own account: as many values as it has rows, and the words behind them.

    Asked of whole row groups: Arrow ends the process where what it is told about a single column is damaged.
    """
    about = file.metadata
    width = sum(max(8, file.schema.column(number).length or 0) for number in range(about.num_columns))
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    return max(width * about.num_rows, sum(width * group.num_rows + group.total_byte_size for group in groups))


def _as_array(column: Any) -> np.ndarray:
    """A column of Arrow as an array; words are Python's, each of them once."""
    import pyarrow as arrow

    if not arrow.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    parts = [np.zeros(0, object)]
    for part in column.chunks:
        words = np.array([*part.dictionary.to_pylist(), None], object)  # the last one for rows without a word
        parts.append(words[part.indices.fill_null(len(part.dictionary)).to_numpy()])
    return np.concatenate(parts)


def _check_once(path: str, names: list[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise AskewError(f"{path}: column {twice[0]!r} occurs twice in the header")


def _numbers(path: str, name: str, values: Any, what: str = "features") -> np.ndarray:
    """A column as float32; the first value that is no finite number is named."""
    try:
        # Words one by one: as one array, all would be as long as the longest.
        plain = [float(value) for value in values] if isinstance(values, tuple) else values
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which is refused below
            numbers = np.asarray(plain).astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(numbers))
    except (ValueError, TypeError, OverflowError):
        bad = np.array([next((row for row, value in enumerate(values) if not _is_number(value)), 0)])
    if len(bad):
        option = "features" if what == "features" else "label"
        raise AskewError(f"{path}: column {name!r} holds {repr(values[bad[0]])[:80]} in row {bad[0] + 1}; {what} must "
                         f"be numbers: choose columns with {option}=[...] or clean the table")
    return numbers


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (ValueError, TypeError, OverflowError):
        return False


def _label_values(values: Any, *further: type) -> Any:
    """CSV knows only words: a column of nothing but whole numbers (or of what `further` reads) is numbers."""
    if not isinstance(values, tuple):
        return values
    for number in (int, *further):
        try:
            return [number(value) for value in values]
        except ValueError:
            continue
    return [value if value.strip() else None for value in values]
