"""Evaluate the plain average of the clients' models, whatever model training goes on from.

References:
    fednnnn2020, section 4.1: the normalised model "is only good as a foundation of learning".
"""

from __future__ import annotations

from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, add


@piece("server")
def evaluate_average() -> ServerPiece:
    """Leave the update alone; the model to evaluate becomes w + mean update of the last round.

    Example:
        w = 1, mean update 2, rescaled to 6: training goes on from 7, the evaluated model is 3.

        >>> ctx = server_context([(2,)], w=[1])
        >>> evaluate_average().update({"w": torch.tensor([6.0])}, ctx.params, ctx)
        ({'w': tensor([6.])}, {'w': tensor([3.])})
    """

    def check(plan: Plan) -> None:
        if any(isinstance(p, ServerPiece) and p.trains for p in (*plan.before, *plan.after)):
            raise AskewError("server: evaluate_average would judge the average without the server's training; "
                             "use one of the two")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return u, add(ctx.params, ctx.cohort.mean)

    return ServerPiece(update, init=lambda params: params, view=lambda params, average: average, watches=True,
                       check=check)
