"""FedAdagrad: steps that shrink with the sum of all squares so far.

References:
    Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2.
"""

from __future__ import annotations

from askew.core.bounds import Decay, Positive
from askew.core.registry import piece
from askew.core.schedule import PositiveRate
from askew.core.server_piece import ServerPiece
from askew.pieces.server.adaptive import adaptive


@piece("server")
def adagrad(lr: PositiveRate = 0.1, beta1: Decay = 0.0, tau: Positive = 1e-3) -> ServerPiece:
    """Adagrad on the mean update u.

        m <- beta1 m + (1 - beta1) u
        v <- v + u^2
        update: lr m / (sqrt(v) + tau)

    As printed, v starts at tau^2 and nothing is corrected for the start.

    Args:
        lr: the server's rate, or a schedule of it.
        beta1: how much of the past m keeps.
        tau: how adaptive it is: the smaller, the more alike all coordinates' steps become.

    Example:
        lr 1, tau 1, u = 2: m = 2, v = 1 + 4 = 5, update 2 / (sqrt(5) + 1) = 0.6180.

        >>> server_update(adagrad(lr=1.0, tau=1.0), [(2,)])
        tensor([0.6180])
    """
    return adaptive(lr, beta1, tau, lambda v, squares: v + squares)
