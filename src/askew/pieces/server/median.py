"""The median of the clients' updates, coordinate by coordinate: a few clients cannot carry it anywhere.

References:
    Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", definition 1.
"""

from __future__ import annotations

from torch import Tensor

from askew.core.registry import piece
from askew.core.server_piece import Aggregator, ServerContext
from askew.core.tensors import Params, Tree
from askew.pieces.statistic.everything import Everything


@piece("server")
def median() -> Aggregator:
    """The middle one of the clients' values of each coordinate; of an even number, the mean of the two in the middle.

    All clients count the same. Every update of a round is kept until all have come.

    Example:
        >>> server_update(median(), [(1, 5), (2, 6), (99, -7)])
        tensor([2., 5.])
    """

    def middle(rows: Tensor) -> Tensor:
        ordered, half = rows.sort(dim=0).values, len(rows) // 2
        # torch.median takes the lower one.
        return ordered[half] if len(rows) % 2 else (ordered[half - 1] + ordered[half]) / 2

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return {name: middle(rows) for name, rows in ctx.cohort[Everything()].items()}, state

    return Aggregator(update, needs=[Everything()])
