"""The proximal term of FedProx: stay near the model that the round began with.

References:
    Sahu et al. 2018 (FedProx); fednnnn2020, eq. (7).
"""

from __future__ import annotations

from askew.core.bounds import NonNegative
from askew.core.client_piece import ClientContext, OnGradient
from askew.core.registry import piece
from askew.core.tensors import Params, Tree


@piece("client")
def add_proximal(mu: NonNegative) -> OnGradient:
    """gradient <- gradient + mu (w - w_t): the gradient of  loss + mu/2 ||w - w_t||^2.

    The gradient is added itself. Adding the term to the loss from detached weights, as one public version does,
    changes the loss that is shown and nothing else.

    Args:
        mu: strength; 0 is FedAvg.

    Example:
        mu 0.5, w_t = 1, w = 3, gradient 2: 2 + 0.5 (3 - 1) = 3.

        >>> client_update(add_proximal(0.5), [2.0], w=[3.0], start=[1.0])
        tensor([3.])
    """

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: g + mu * (ctx.params[name] - ctx.start[name]) for name, g in u.items()}, state

    return OnGradient(update, once=True)
