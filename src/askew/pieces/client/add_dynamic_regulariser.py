"""FedDyn's client: a penalty that moves so that, in the end, clients and server want the same.

References:
    Acar et al. 2021, "Federated Learning Based on Dynamic Regularization", algorithm 1.
"""

from __future__ import annotations

from askew.core.bounds import Positive
from askew.core.client_piece import ClientContext, Message, OnGradient
from askew.core.registry import piece
from askew.core.tensors import ModelState, Params, Tree, zeros_like


@piece("client")
def add_dynamic_regulariser(alpha: Positive) -> OnGradient:
    """gradient <- gradient - h_k + alpha (w - w_t);  after the round  h_k <- h_k - alpha (w_k - w_t).

    h_k is the client's gradient at its last solution, which it keeps; at first 0. The paper solves for w_k exactly;
    here, as in its authors' program, the client takes its local steps. That program also divides alpha by the client's
    examples over the mean of all clients' (large clients are held less), and clips gradients at 10; here alpha is the
    same for all, as printed.

    Args:
        alpha: strength; the server's `correct_dynamically` must have the same.

    Example:
        alpha 0.5, h_k = 0, w_t = 1, w = 3, gradient 2: 2 - 0 + 0.5 (3 - 1) = 3.

        >>> client_update(add_dynamic_regulariser(0.5), [2.0], w=[3.0], start=[1.0])
        tensor([3.])
    """

    def keep(model: ModelState) -> Tree:
        return zeros_like(model.params)

    def update(u: Params, h: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: g - h[name] + alpha * (ctx.params[name] - ctx.start[name]) for name, g in u.items()}, h

    def end(message: Message, h: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return message, {name: kept[name] - alpha * u for name, u in message["update"].items()}

    return OnGradient(update, keep, begin=lambda kept, ctx: kept, end=end, penalty=alpha, once=True)
