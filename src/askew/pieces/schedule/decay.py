"""A rate that shrinks by the same factor after each round."""

from __future__ import annotations

from typing import Annotated

from askew.core.bounds import Bounds
from askew.core.registry import piece
from askew.core.schedule import Rate, Schedule, value_at


@piece("schedule")
def decay(start: Rate, factor: Annotated[float, Bounds(0, 1, open_low=True)]) -> Schedule:
    """After t rounds: start factor^t.

    Args:
        start: in the first round; a schedule is multiplied round by round.
        factor: above 0, at most 1 (zhao2018: 0.995 or 0.992).

    Example:
        >>> [decay(0.4, 0.5)(t) for t in range(3)]
        [0.4, 0.2, 0.1]

    References:
        Zhao et al. 2018, section 2.1.
    """
    return Schedule(lambda round: value_at(start, round) * factor**round)
