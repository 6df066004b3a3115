"""A rate that falls along half a cosine."""

from __future__ import annotations

from askew.core.bounds import Count, NonNegative
from askew.core.registry import piece
from askew.core.schedule import Rate, Schedule, cos_pi, part_of, value_at


@piece("schedule")
def cosine(start: Rate, rounds: Count, end: NonNegative = 0.0) -> Schedule:
    """After t rounds: end + (start - end) (1 + cos(pi t / rounds)) / 2, and `end` from t = rounds on.

    Args:
        start: in the first round.
        rounds: after which `end` is reached; usually those of the run.
        end: the last rate.

    Example:
        >>> [round(cosine(0.4, rounds=4)(t), 4) for t in (0, 2, 4, 9)]
        [0.4, 0.2, 0.0, 0.0]

    References:
        Loshchilov and Hutter 2017, SGDR, eq. (5), without restarts.
    """
    return Schedule(lambda round: end + (value_at(start, round) - end) * (1 + cos_pi(part_of(round, rounds))) / 2)
