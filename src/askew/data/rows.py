"""The rows of a table, column by column: from a CSV or Parquet file, from dicts, from pandas."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from askew.core.arrays import check_unpacked
from askew.core.cells import Values
from askew.core.errors import AskewError, first_line, shown
from askew.core.files import check_regular

Rows = dict[str, Values | None]  # None: a column of lists or records, which is not read
SEPARATORS = ",;\t|"
_HEADER = 2**16  # characters in which the first line is looked for


def read_rows(path: str | Path, delimiter: str | None = None) -> Rows:
    """The columns of a file, in its order; those of CSV are words.

    Args:
        path: .parquet or .pq is Parquet (needs pyarrow), all else is CSV in UTF-8 with a header line.
        delimiter: between the cells of CSV; None: the one of , ; tab and | that is in the header most often.
    """
    path = os.path.expanduser(path)
    check_regular(path, "CSV or Parquet file")
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\n\r' or not delimiter.isascii()):
        raise AskewError(f"delimiter must be one character, such as ';' or a tab, not {shown(delimiter)}")
    return _read_csv(path, delimiter)


def rows_of(where: str, table: Any) -> Rows | None:
    """The columns of a table in memory: a list of dicts, a dict of columns, what pandas or Arrow has; None: it is none.

    Example:
        >>> rows_of("patients", [{"age": 40, "ward": "a"}, {"age": 50}])
        {'age': [40, 50], 'ward': ['a', None]}
    """
    if isinstance(table, Mapping):
        columns = {str(name): values for name, values in table.items()}
    elif isinstance(table, list | tuple) and table and all(isinstance(row, Mapping) for row in table):
        names = dict.fromkeys(str(name) for row in table for name in row)
        plain = [{str(name): value for name, value in row.items()} for row in table]
        columns = {name: [row.get(name) for row in plain] for name in names}
    elif (headings := getattr(table, "column_names", getattr(table, "columns", None))) is not None:  # Arrow's; pandas'
        _check_once(where, [str(name) for name in headings])
        try:
            columns = {str(name): np.asarray(table[name]) for name in headings}
        except Exception as error:  # whatever an object of a stranger's raises
            raise AskewError(f"{where}: the columns cannot be read ({first_line(error)})") from None
    else:
        return None
    for name, values in columns.items():
        if not isinstance(values, list | tuple | np.ndarray) or (isinstance(values, np.ndarray) and values.ndim != 1):
            raise AskewError(f"{where}: column {name!r} must be a list with one value per row, not {shown(values)}")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise AskewError(f"{where}: " + ("columns of several lengths" if len(lengths) > 1 else "the table has no rows"))
    return dict(columns)


def separator_of(header: str) -> str:
    """What separates the cells of a header: of those signs that may, the one that is there most often.

    Example:
        >>> separator_of('age;"weight, in kg";ward')
        ';'
    """
    outside = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def _read_csv(path: str, delimiter: str | None) -> Rows:
    """Columns of strings."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            if delimiter is None:
                delimiter = separator_of(next((line for line in file.read(_HEADER).splitlines() if line.strip()), ""))
                file.seek(0)
            rows = list(csv.reader(file, delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AskewError(f"{path!r} cannot be read as CSV in UTF-8 ({error}); save it as CSV in UTF-8 "
                         "(spreadsheets have it under 'Save as'), or as Parquet") from None
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
            hint = "; if another sign separates its cells, say delimiter=';'" if len(header) == 1 else ""
            raise AskewError(f"{path}: row {number} has {len(row)} values, the header {len(header)} columns{hint}")
    return dict(zip(header, zip(*rows[1:], strict=True), strict=True))


def _read_parquet(path: str) -> Rows:
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
        arrays: Rows = {name: _as_array(read.column(name)) if name in flat else None for name in names}
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

    if arrow.types.is_integer(column.type) and column.null_count:
        return np.array(column.to_pylist(), object)  # as floats beside gaps, codes of 17 digits would become one
    if not arrow.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    parts = [np.zeros(0, object)]
    for part in column.chunks:
        words = np.array([*part.dictionary.to_pylist(), None], object)  # the last one for rows without a word
        parts.append(words[part.indices.fill_null(len(part.dictionary)).to_numpy()])
    return np.concatenate(parts)


def _check_once(where: str, names: list[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise AskewError(f"{where}: column {twice[0]!r} occurs twice in the header")
