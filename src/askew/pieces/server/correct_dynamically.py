"""FedDyn's server: the mean model, moved by the sum of what all clients have drifted so far.

References:
    Acar et al. 2021, "Federated Learning Based on Dynamic Regularization", algorithm 1.
"""

from __future__ import annotations

from askew.core.bounds import Positive
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, zeros_like


@piece("server")
def correct_dynamically(alpha: Positive) -> ServerPiece:
    """h <- h - alpha (|S| / N) u;  update: u - h / alpha, where u is the clients' unweighted mean update.

    S are the clients of the round, N all of the federation. It stands behind `mean("uniform")`. The authors' program
    judges the plain mean of the models; here the corrected model, which the clients are sent, is judged.

    Args:
        alpha: as in the clients' `add_dynamic_regulariser`.

    Example:
        All of two clients, updates 1 and 3, alpha 0.5: u = 2, h = -1, update 2 + 2 = 4.

        >>> server_update(correct_dynamically(0.5), [(1,), (3,)])
        tensor([4.])
    """

    def update(u: Params, h: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        share = len(ctx.cohort) / ctx.clients
        h = {name: v - alpha * share * u[name] for name, v in h.items()}
        return {name: v - h[name] / alpha for name, v in u.items()}, h

    def check(plan: Plan) -> None:
        if others := [p for p in plan.client if p.penalty is not None and p.penalty != alpha]:
            raise AskewError(f"server: correct_dynamically(alpha={alpha}) beside clients' {others[0]}; give both the "
                             "same alpha")

    return ServerPiece(update, zeros_like, once=True, check=check)
