"""A rate that grows over the first rounds."""

from __future__ import annotations

from askew.core.bounds import Count
from askew.core.registry import piece
from askew.core.schedule import Rate, Schedule, part_of, value_at


@piece("schedule")
def linear_warm_up(to: Rate, rounds: Count) -> Schedule:
    """After t rounds: to (t + 1) / rounds, and `to` from round number `rounds` on.

    Args:
        to: the rate when it is warm; often a schedule, which counts its rounds from the run's first.
        rounds: that it takes; the first one has 1 / rounds of the rate.

    Example:
        >>> [linear_warm_up(0.4, rounds=4)(t) for t in (0, 1, 3, 9)]
        [0.1, 0.2, 0.4, 0.4]

    References:
        Goyal et al. 2017, section 2.2.
    """
    return Schedule(lambda round: value_at(to, round) * part_of(round + 1, rounds))
