"""A rate that drops after given rounds."""

from __future__ import annotations

from collections.abc import Sequence

from askew.core.bounds import Share
from askew.core.registry import piece
from askew.core.schedule import Rate, Schedule, value_at


@piece("schedule")
def drops(start: Rate, at: Sequence[int], factor: Share = 0.1) -> Schedule:
    """After t rounds: start factor^n, where n of the rounds in `at` are at most t.

    Args:
        start: before the first drop; a schedule is multiplied round by round.
        at: rounds after which the rate drops (fedcd2020's notebook: 25, 50, 75).
        factor: of each drop.

    Example:
        >>> [drops(1.0, at=[2, 3], factor=0.5)(t) for t in range(4)]
        [1.0, 1.0, 0.5, 0.25]
    """
    return Schedule(lambda round: value_at(start, round) * factor ** sum(round >= drop for drop in at))
