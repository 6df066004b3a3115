"""Whether what was read has the form that a page relies on; a file may have been changed by hand, or by a bad disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Or none at all; one that arithmetic and JSON can bear."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool)
                             and abs(value) < 1e300 and math.isfinite(value))


def problem_of(evaluation: Mapping[str, Any]) -> str | None:
    """What is wrong with it, in a few words; None where nothing is.

    Example:
        >>> problem_of({"task": "regression", "higher_is_better": False})
        >>> problem_of({"task": "regression", "higher_is_better": False, "models": {"0": 3}})
        '`models` does not have the form of an evaluation'
    """
    classes, clients = evaluation.get("classes"), evaluation.get("clients")
    number = len(classes) if isinstance(classes, list) else None
    many = len(clients["name"]) if isinstance(clients, dict) and isinstance(clients.get("name"), list) else 0
    checks: dict[str, Check] = {
        "task": _is_text, "higher_is_better": lambda v: isinstance(v, bool),
        "judged_on": lambda v: v is None or _is_text(v),
        "measures": _or_none(lambda v: _is_mapping(v, is_number)),
        "classes": _or_none(lambda v: _is_list(v, _is_text)),
        "by_class": _or_none(lambda v: _is_mapping(v, lambda column: _is_list(column, is_number, number))
                             and {"recall", "precision", "f1", "examples"} <= v.keys()),
        "confusion": _or_none(lambda v: _is_table(v, number, number)),
        "clients": _or_none(lambda v: _are_clients(v, many, number)),
        "models": _or_none(lambda v: _is_mapping(v, _is_model) and all(name.isdecimal() for name in v)),
        "skew": _or_none(lambda v: _is_mapping(v, is_number)),
    }
    needed = ("task", "higher_is_better")
    wrong = next((name for name, check in checks.items()
                  if (name in evaluation or name in needed) and not check(evaluation.get(name))), None)
    return None if wrong is None else f"`{wrong}` does not have the form of an evaluation"


def plain_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of a round's record, the numbers, and who was left out.

    Example:
        >>> plain_record({"round": 1, "loss": float("nan"), "choice": [0, 1], "dropped": {"late": 2}})
        {'round': 1, 'dropped': {'late': 2}}
    """
    lists: dict[str, Check] = {"dropped": _is_whole, "dropped_clients": lambda v: _is_list(v, _is_whole)}
    return {name: value for name, value in record.items()
            if (_is_mapping(value, lists[name]) if name in lists else value is not None and is_number(value))}


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_list(value: Any, check: Check, length: int | None = None) -> bool:
    return isinstance(value, list) and (length is None or len(value) == length) and all(map(check, value))


def _is_mapping(value: Any, check: Check) -> bool:
    return isinstance(value, dict) and all(map(check, value.values()))


def _is_table(value: Any, rows: int | None, columns: int | None, check: Check = is_number) -> bool:
    return _is_list(value, lambda row: _is_list(row, lambda v: v is not None and check(v) and v >= 0, columns), rows)


def _are_clients(value: Any, many: int, classes: int | None) -> bool:
    if not isinstance(value, dict):
        return False
    counts = value.get("label_counts")
    return (_is_list(value.get("name"), _is_text) and _is_list(value.get("score"), is_number, many)
            and _is_list(value.get("examples"), _is_whole, many) and _is_list(value.get("model"), _is_whole, many)
            and (value.get("group") is None or _is_list(value["group"], lambda v: v is not None, many))
            and (counts is None or (many > 0 and bool(counts)
                                    and _is_table(counts, many, classes or len(counts[0]), _is_whole)
                                    and any(map(any, counts)))))


def _is_model(value: Any) -> bool:
    return (isinstance(value, dict) and _is_whole(value.get("clients")) and is_number(value.get("score"))
            and {"score", "parent", "born", "died"} <= value.keys()
            and all(value[name] is None or _is_whole(value[name]) for name in ("parent", "born", "died")))
