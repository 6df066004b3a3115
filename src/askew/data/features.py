"""What the columns of a table are: numbers or categories, and which; dates, identifiers and slips are refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from askew.core.cells import Values, absent, are_dates, numbers, take, words
from askew.core.columns import Feature, Missing
from askew.core.errors import AskewError, shown

MOST_CATEGORIES = 1_000
FEW = 20  # so many categories are never taken for identifiers
MOST_CELLS = 50_000_000  # that categories may become, over all rows: 200 MB
# 1,5 and 1.5; thousands as 1,234,567.8, 1.234.567,8, 1 234 (also with the narrow spaces of typesetters) and 1'234
_MARKED = re.compile(r"\s*[-+]?(\d+[.,]\d+|\d{1,3}([., '\u2019\xa0\u202f])\d{3}(\2\d{3})*([.,]\d+)?)\s*")


def fit(path: str, columns: Mapping[str, Values], train: np.ndarray, codes: Sequence[str], missing: Missing,
        decimal: str, numbers_of_rows: np.ndarray) -> tuple[Feature, ...]:
    """How each column becomes inputs.

    What a column holds is seen in all rows; means, categories and whether there are gaps in the training rows alone.

    Args:
        path: of the table, for errors.
        train: the training rows.
        codes: columns of numbers that are categories all the same.
        missing: what becomes of empty cells.
        numbers_of_rows: in the file, from 0, for errors.
    """
    features = [_fit(path, name, values, train, name in codes, missing, decimal, numbers_of_rows)
                for name, values in columns.items()]
    rows, width = len(next(iter(columns.values()))), sum(len(f.categories or ()) for f in features)
    if rows * width > MOST_CELLS:
        widest = max(features, key=lambda f: len(f.categories or ()))
        raise AskewError(f"{path}: {width:,} categories over {rows:,} rows would take {4 * rows * width / 1e9:,.1f} "
                         f"GB; leave columns out: drop=[{widest.name!r}, ...]")
    return tuple(features)


def _fit(path: str, name: str, values: Values, train: np.ndarray, code: bool, missing: Missing, decimal: str,
         rows: np.ndarray) -> Feature:
    where, fills = f"{path}: column {name!r}", missing not in ("refuse", "drop")
    floats, bad = numbers(values, decimal)
    indicator = missing == "indicator" and bool(absent(take(values, train)).any())
    if not code and (bad.any() or not np.isfinite(floats).any()):
        code = _are_words(where, name, values, floats, bad, decimal, rows)
    if not code:
        known = floats[train][np.isfinite(floats[train])].astype(np.float64)
        if len(known) == 0:
            raise AskewError(f"{where} has no value in any training row; leave it out: drop=[{name!r}]")
        return Feature(name, None, float(np.float32(known.mean())) if fills else None, indicator)
    filled = [word for word in words(take(values, train)) if word is not None]
    counts = Counter(filled)
    if len(counts) > MOST_CATEGORIES or (len(counts) > FEW and 2 * len(counts) > len(filled)):
        raise AskewError(f"{where} has {len(counts):,} different words in {len(filled):,} training rows, such as "
                         f"{shown(filled[0], 40)}: an identifier or free text; leave it out with drop=[{name!r}], or "
                         f"learn from it alone with text={name!r}")
    if not counts:
        raise AskewError(f"{where} has no value in any training row; leave it out: drop=[{name!r}]")
    most = min(counts, key=lambda word: (-counts[word], word))
    return Feature(name, tuple(sorted(counts)), most if fills and not indicator else None, indicator)


def _are_words(where: str, name: str, values: Values, floats: np.ndarray, bad: np.ndarray, decimal: str,
               rows: np.ndarray) -> bool:
    """Whether a column that is not all numbers is one of categories; refuses what is neither."""
    present = ~absent(values)

    def holds(which: np.ndarray) -> str:
        row = int(np.flatnonzero(which)[0])
        return f"{where} holds {shown(values[row])} in row {rows[row] + 1}"

    if are_dates(values) and present.any():
        raise AskewError(f"{holds(present)}: dates and times are nothing that a network can read; leave them out with "
                         f"drop=[{name!r}], or write numbers in their place (year, days since a day)")
    if not bad.any():  # no value at all
        return False
    if np.isinf(floats).any():
        raise AskewError(f"{holds(np.isinf(floats))}; numbers must be finite, in 32 bits")
    marked = [str(value) for value in take(values, np.flatnonzero(bad)[:100])]
    if all(map(_MARKED.fullmatch, marked)):
        comma = "if that is a decimal comma, say decimal=','; " if decimal == "." and "," in marked[0] else ""
        raise AskewError(f"{holds(bad)}; {comma}if it is a number, write it with no mark but the {decimal!r} before a "
                         f"fraction; if it is a category, categories=[{name!r}]")
    if 2 * int((present & ~bad).sum()) > int(present.sum()):
        raise AskewError(f"{holds(bad)}, and numbers in most rows: mend it, or say categories=[{name!r}]")
    return True
