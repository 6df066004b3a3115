"""Cells of a table as people write them: which are empty, which are numbers, which are words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

# Words that stand for no value, in any case of letters; "none" is not among them: it may be an answer.
NOTHING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "<na>"})
_MONTH = "(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zä]*"
_DATE = re.compile(r"\d{4}([./-])\d{1,2}\1\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})( .*)?|"
                   r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]\.?m\.?)?|"
                   rf"\d{{1,2}}\.?[ -]?{_MONTH}[. ,-]*(\d{{4}}|\d{{2}})( .*)?|"
                   rf"{_MONTH}[. ]*\d{{1,2}}, *\d{{4}}( .*)?", re.IGNORECASE)
Values = Sequence[Any] | np.ndarray


def absent(values: Values) -> np.ndarray:
    """Whether each cell is empty.

    Example:
        >>> absent(["1", " ", "NA", "none"]).tolist()
        [False, True, True, False]
    """
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return {"f": np.isnan, "M": np.isnat, "m": np.isnat}.get(values.dtype.kind, _none)(values)
    return np.fromiter((_is_absent(value) for value in values), bool, len(values))


def numbers(values: Values, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """Cells as float32, and which of them are no finite numbers, though not empty; NaN where there is no number.

    Args:
        decimal: the mark between whole and fraction, in words.

    Example:
        >>> numbers(["1,5", "x", ""], decimal=",")
        (array([1.5, nan, nan], dtype=float32), array([False,  True, False]))
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is infinite, and refused as that
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            floats = values.astype(np.float32)
        else:
            floats = np.asarray([_number(value, decimal) for value in values], np.float64).astype(np.float32)
    bad = ~np.isfinite(floats)
    places = np.flatnonzero(bad)
    bad[places] = ~absent(take(values, places))
    return floats, bad


def words(values: Values) -> list[str | None]:
    """Cells as words, without spaces around them; None where they are empty. Whole numbers are written as such.

    Example:
        >>> words([" a", 3.0, None, np.int64(4)])
        ['a', '3', None, '4']
    """
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if _is_absent(value) else _word(value) for value in plain]


def named(values: Values) -> list[str | None]:
    """Labels and clients as words; truth values are the numbers that they are numbered by.

    Example:
        >>> named([True, None]), named(np.array([False, True]))
        (['1', None], ['0', '1'])
    """
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return words([int(value) if isinstance(value, bool) else value for value in plain])


def are_dates(values: Values) -> bool:
    """Whether most cells are dates or times.

    Example:
        >>> are_dates(["2024-01-31", "", "2024-02-01 10:30"]), are_dates(["a", "2024-01-31", "b"])
        (True, False)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "Mm":
        return True
    present = [value for value in values if not _is_absent(value)]
    dates = sum(hasattr(value, "isoformat") or (isinstance(value, str) and len(value) < 100
                                                and bool(_DATE.fullmatch(value.strip()))) for value in present)
    return 2 * dates > len(present)


def take(values: Values, rows: np.ndarray) -> Values:
    """Some of the cells."""
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]


def _none(values: np.ndarray) -> np.ndarray:
    return np.zeros(len(values), bool)


def _is_absent(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < 20 and value.strip().lower() in NOTHING
    # Not a number, of any type; pandas' own marks, which cannot be compared
    return value is None or (isinstance(value, float | np.floating) and value != value) or (
        type(value).__name__ in ("NAType", "NaTType"))


def _number(value: Any, decimal: str) -> float:
    try:
        if isinstance(value, str):
            if "_" in value or (decimal != "." and "." in value):  # 1_2 is a code; with a decimal comma, 1.234 is 1234
                return float("nan")
            value = value.replace(decimal, ".")
        return float(value)
    except (ValueError, TypeError, OverflowError, RuntimeError):  # of a tensor of several numbers
        return float("nan")


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if is_whole else value).strip()
