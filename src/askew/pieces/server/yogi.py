"""FedYogi: Adam whose second moment moves by a bounded step.

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
def yogi(lr: PositiveRate = 0.1, beta1: Decay = 0.9, beta2: Decay = 0.99, tau: Positive = 1e-3) -> ServerPiece:
    """Yogi on the mean update u.

        m <- beta1 m + (1 - beta1) u
        v <- v - (1 - beta2) u^2 sign(v - u^2)
        update: lr m / (sqrt(v) + tau)

    As printed, v starts at tau^2 and nothing is corrected for the start.

    Args:
        lr: the server's rate, or a schedule of it.
        beta1: how much of the past m keeps.
        beta2: how much of the past v keeps.
        tau: how adaptive it is: the smaller, the more alike all coordinates' steps become.

    Example:
        lr 1, beta1 0.5, beta2 0.75, tau 1, u = 2: m = 1, v = 1 + 0.25 * 4 = 2, update 1 / (sqrt(2) + 1) = 0.4142.

        >>> server_update(yogi(lr=1.0, beta1=0.5, beta2=0.75, tau=1.0), [(2,)])
        tensor([0.4142])
    """
    return adaptive(lr, beta1, tau, lambda v, squares: v - (1 - beta2) * squares * (v - squares).sign())
