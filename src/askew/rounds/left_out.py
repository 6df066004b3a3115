"""Whose updates were left out of a round, and why: in the record, over a run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMED = 20  # clients that a record names for each reason


def record_of(left_out: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """For a round's record: how many updates for each reason, and the first clients that sent them.

    Example:
        >>> record_of({"late": [7, 3], "not_finite": []})
        {'dropped': {'late': 2}, 'dropped_clients': {'late': [3, 7]}}
    """
    reasons = {reason: clients for reason, clients in left_out.items() if clients}
    return {"dropped": {reason: len(clients) for reason, clients in reasons.items()},
            "dropped_clients": {reason: sorted(set(clients))[:NAMED] for reason, clients in reasons.items()}}


def totals(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Updates left out over a run, by reason.

    Example:
        >>> totals([{"dropped": {"late": 2}}, {}, {"dropped": {"late": 1, "not_finite": 1}}])
        {'late': 3, 'not_finite': 1}
    """
    counted: Counter[str] = Counter()
    for record in records:
        counted.update(record.get("dropped", {}))
    return dict(counted)


def in_words(dropped: Mapping[str, int]) -> str:
    """One line for a person; nothing where nothing was left out.

    Example:
        >>> in_words({"dropped_out": 12, "not_finite": 1})
        '13 updates left out: 12 dropped out, 1 not finite'
    """
    if not dropped:
        return ""
    count = sum(dropped.values())
    reasons = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in dropped.items())
    return f"{count:,} update{'s' if count > 1 else ''} left out: {reasons}"
