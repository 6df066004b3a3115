"""The mean of the clients' updates without the largest and the smallest, coordinate by coordinate.

References:
    Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", definition 2.
"""

from __future__ import annotations

from typing import Annotated

from askew.core.bounds import Bounds
from askew.core.registry import piece
from askew.core.server_piece import Aggregator, ServerContext
from askew.core.tensors import Params, Tree
from askew.pieces.statistic.everything import Everything


@piece("server")
def trimmed_mean(share: Annotated[float, Bounds(0, 0.5, open_high=True)] = 0.2) -> Aggregator:
    """Of n clients' values of each coordinate, leave out the floor(share n) largest and smallest; the mean of the rest.

    All clients count the same. Every update of a round is kept until all have come.

    Args:
        share: left out at each end; 0 is the plain mean.

    Example:
        Five clients, share 0.2: one at each end goes.

        >>> server_update(trimmed_mean(0.2), [(1,), (2,), (3,), (4,), (100,)])
        tensor([3.])
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        cut = int(share * len(ctx.cohort) + 1e-9)  # 0.2 * 15 is 3, whatever floats say
        rows = ctx.cohort[Everything()]
        return {name: v.sort(dim=0).values[cut : len(v) - cut].mean(dim=0) for name, v in rows.items()}, state

    return Aggregator(update, needs=[Everything()])
