"""FedExP: a server rate that grows when the clients' updates cancel.

References:
    Jhunjhunwala, Wang and Joshi 2023, "FedExP: Speeding Up Federated Averaging via
    Extrapolation", algorithm 1, eq. (2).
"""

from __future__ import annotations

from askew.core.bounds import NonNegative
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, norm


@piece("server")
def extrapolate(epsilon: NonNegative = 1e-3) -> ServerPiece:
    """u <- eta u with eta = max(1, sum_k a_k ||u_k||^2 / (2 (||u||^2 + epsilon))).

    The weights a_k are those of the mean (the paper's are equal; its authors' program weighs by examples). That program
    also multiplies epsilon by the number of clients, and shrinks it with the clients' rate; here it is as printed. The
    paper judges the average of the last two models; here the model itself is judged.

    Args:
        epsilon: keeps the rate small where the mean update vanishes.

    Example:
        Updates (3, 4) and (3, -4): mean (3, 0), eta = 25 / (2 * 9) = 1.3889 with epsilon 0; update (4.1667, 0).

        >>> server_update(extrapolate(0.0), [(3, 4), (3, -4)])
        tensor([4.1667, 0.0000])
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        lengths = (ctx.cohort.lengths.square() * ctx.cohort.weights).sum()
        rate = (lengths / (2 * (norm(u).double().square() + epsilon))).clamp_min(1.0)
        return {name: (rate * v).to(v.dtype) for name, v in u.items()}, state

    return ServerPiece(update)
