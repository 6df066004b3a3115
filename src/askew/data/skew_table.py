"""Examples by client and class, from a file of counts or of rows: what a federation can tell without showing any."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from askew.core.cells import Values, absent, are_dates, take
from askew.core.columns import Missing, empty_cells
from askew.core.errors import AskewError, suggest
from askew.core.files import MEGABYTE, read_text
from askew.data.labels import encode_labels
from askew.data.rows import read_rows
from askew.data.table import label_values

_NAME_COLUMNS = {"", "client", "clients", "client_id", "client id", "id", "name", "device", "site", "user", "owner",
                 "index", "unnamed: 0"}
_SUMS = {"total", "totals", "sum", "sums", "all", "gesamt", "summe", "somme", "totale"}
_LARGEST = 10**12  # of one count; sums of millions of them stay exact in 64 bits
MOST = 64 * MEGABYTE  # of a file: a hundred thousand clients with a hundred classes have less


@dataclass(frozen=True)
class CountsTable:
    """Client names, class names, and counts of shape (clients, classes); what columns of rows called both."""

    clients: list[str]
    classes: list[str]
    counts: np.ndarray
    client_column: str = "client"
    label_column: str = "classes"


def read_counts(path: str | Path) -> CountsTable:
    """Read client x class counts; a header row and a first column of client names may be there or not.

    A first row is a header if it holds no number beside its first cell, or just counts up the classes (0, 1, 2, ... or
    1, 2, 3, ...). A first column holds names if any of its cells is no number, or if the header calls
    it client, id, name or nothing at all. Commas, semicolons and tabs separate.

    Args:
        path: the file, UTF-8.

    Returns:
        The table; missing names become 0, 1, 2, ...

    Raises:
        AskewError: naming row and column (both from 1, as an editor or spreadsheet shows them) of what is wrong.
    """
    rows = _read_rows(Path(path))
    header = rows[0][1] if _is_header([cells for _, cells in rows]) else None
    body = rows[1:] if header is not None else rows
    if not body:
        raise AskewError(f"{str(path)!r} has a header but no clients; write one row per client")
    named = (header is not None and header[0].strip().lower() in _NAME_COLUMNS) or any(
        not _is_number(cells[0]) for _, cells in body)
    width = len(header or body[0][1])
    first = 1 if named else 0
    if width - first < 2:
        raise AskewError(f"{str(path)!r} has {width - first} class columns; at least two classes are needed to speak "
                         "of skew")
    classes = [name.strip() for name in header[first:]] if header else [str(c) for c in range(width - first)]
    for line, cells in body:  # all of them before the table is made: a long header over many rows would fill the memory
        if len(cells) != width:
            raise AskewError(f"{str(path)!r}: row {line} has {len(cells)} cells, the first row has {width}; "
                             "write a count for each class")
    counts = np.empty((len(body), width - first), np.int64)
    for place, (line, cells) in enumerate(body):
        for column in range(first, width):
            counts[place, column - first] = _count(path, line, column, cells, classes[column - first], named)
        if not counts[place].any():
            raise AskewError(f"{str(path)!r}: row {line}{_of(cells, named)} has no examples at all; leave this client "
                             "out")
    names = [cells[0].strip() for _, cells in body] if named else [str(k) for k in range(len(body))]
    _check_names(path, "class", "column", classes, counts.T)
    _check_names(path, "client", "row", names, counts)
    return CountsTable(names, classes, counts)


def _check_names(path: str | Path, what: str, place: str, names: list[str], counts: np.ndarray) -> None:
    """Refuse a name that is there twice, and a spreadsheet's sums among what they are sums of.

    Args:
        counts: one line for each of the names.
    """
    for name, times in Counter(names).items():
        if times > 1:
            raise AskewError(f"{str(path)!r}: {what} {name[:50]!r} is there {times} times; add its {place}s up, or "
                             "name them apart")
    for name, line in zip(names, counts, strict=True):
        if name.lower() in _SUMS and len(names) > 2 and (2 * line == counts.sum(axis=0)).all():
            raise AskewError(f"{str(path)!r}: {place} {name[:50]!r} holds the sums of the others, and is no {what}; "
                             "leave it out")


def count_rows(path: str | Path, label: str, client: str, missing: Missing = "refuse",
               delimiter: str | None = None) -> CountsTable:
    """Count the rows of a table by client and class; no other column is looked at.

    Args:
        path: CSV with a header line, or Parquet.
        label: the column of the classes.
        client: the column of the clients.
        missing: "drop" leaves out rows that lack one of the two; else they are refused.
        delimiter: between the cells of CSV; default: as the header has it.
    """
    rows = read_rows(path, delimiter)
    cells: dict[str, Values] = {}
    for name in (label, client):
        values = rows.get(name)
        if values is None:
            raise AskewError(f"{path}: no column {name!r} of one value per row; {suggest(name, islice(rows, 100))}")
        cells[name] = values
    if label == client:
        raise AskewError(f"{path}: --label and --client name one column, {label!r}; name two")
    gaps = {name: empty for name, values in cells.items() if (empty := absent(values)).any()}
    if gaps and missing != "drop":
        raise AskewError(f"{path}: {empty_cells(gaps)}; say --missing drop, or mend the table")
    kept = np.flatnonzero(~np.logical_or.reduce([absent(values) for values in cells.values()]))
    if len(kept) == 0:
        raise AskewError(f"{path}: no row has both {label!r} and {client!r}")
    if are_dates(cells[label]):
        raise AskewError(f"{path}: column {label!r} holds dates, which are no classes; name another column")
    (y,), classes = encode_labels(f"{path}: column {label!r}", label_values(take(cells[label], kept), float),
                                  remedy="; numbers have no skew of labels to measure")
    (owner,), clients = encode_labels(f"{path}: column {client!r}", label_values(take(cells[client], kept)))
    if len(classes) < 2:
        raise AskewError(f"{path}: column {label!r} has one class only, {classes[0]!r}; at least two are needed to "
                         "speak of skew")
    if len(classes) * len(clients) > MOST:
        raise AskewError(f"{path}: {len(classes):,} classes in {label!r} of {len(clients):,} clients in {client!r} "
                         "are too many to count; name the column of the classes")
    counts = np.bincount(owner.numpy() * len(classes) + y.numpy(), minlength=len(classes) * len(clients))
    return CountsTable(list(clients), list(classes), counts.reshape(len(clients), len(classes)), client, label)


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and cells of all rows that are not blank."""
    text = read_text(path, "CSV file of client x class counts, or a population saved by 'askew partition --save'",
                     MOST)
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=separator)
    try:
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise AskewError(f"{str(path)!r}: row {reader.line_num} cannot be read as CSV ({error})") from None
    if not rows:
        raise AskewError(f"{str(path)!r} is empty; write one row per client and one column per class")
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    first = [cell.strip() for cell in rows[0]]
    if len(rows) == 1:
        return False
    rest = first[1:]
    if any(not _is_number(cell) for cell in rest):
        # Numbers beside words: a client with a mistake in its row, to be reported and not passed over as a header.
        return not any(map(_is_number, rest))
    runs = [[str(c) for c in range(start, start + len(cells))] for cells in (first, rest) for start in (0, 1)]
    if first in runs[:2]:
        return len(first) > 2
    return rest in runs[2:] and first[0].lower() in _NAME_COLUMNS


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell.strip()) is not None


def _count(path: str | Path, line: int, column: int, cells: list[str], name: str, named: bool) -> int:
    cell = cells[column].strip()
    where = f"{str(path)!r}: row {line}{_of(cells, named)}, column {column + 1} ({name[:50]!r})"
    if not _is_number(cell):
        raise AskewError(f"{where}: {cell[:50]!r} is not a number of examples; write a whole number, 0 for none")
    value = float(cell)
    if value < 0:
        raise AskewError(f"{where}: {cell[:50]} is negative; write a number of examples, 0 for none")
    if value > _LARGEST:  # first: infinity is no whole number for `int`
        raise AskewError(f"{where}: {cell[:50]} is too large; write a number of examples, at most {_LARGEST:,}")
    if value != int(value):
        raise AskewError(f"{where}: {cell[:50]} is not a whole number of examples; write counts, not shares")
    return int(value)


def _of(cells: list[str], named: bool) -> str:
    return f" ({cells[0].strip()[:50]!r})" if named else ""
