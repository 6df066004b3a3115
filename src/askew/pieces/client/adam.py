"""Adam, as a client's optimiser.

References:
    Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.
"""

from __future__ import annotations

import torch

from askew.core.bounds import Decay, Positive
from askew.core.client_piece import ClientContext, Message, Optimiser
from askew.core.registry import piece
from askew.core.schedule import Rate, value_at
from askew.core.tensors import ModelState, Params, Tree, zeros_like


@piece("client")
def adam(lr: Rate = 1e-3, beta1: Decay = 0.9, beta2: Decay = 0.999, epsilon: Positive = 1e-8,
         keep_state: bool = False) -> Optimiser:
    """m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;  update: -lr m' / (sqrt(v') + epsilon).

    m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t) after t steps: the same maths as `torch.optim.Adam`. m, v and t
    start afresh in each round, unless the client keeps them.

    Args:
        lr: learning rate, or a schedule of it: `decay(0.1, 0.995)`.
        beta1: how much of the past m keeps.
        beta2: how much of the past v keeps.
        epsilon: keeps steps small where gradients vanish.
        keep_state: a client's m, v and t go on where its last round left them.

    Example:
        The first step is -lr g / (|g| + epsilon).

        >>> client_update(adam(lr=0.5), [4.0], w=[0.0])
        tensor([-0.5000])
    """

    def fresh(params: Params) -> Tree:
        first = next(iter(params.values()))
        return {"m": zeros_like(params), "v": zeros_like(params),
                "t": torch.zeros((), dtype=first.dtype, device=first.device)}

    def keep(model: ModelState) -> Tree:
        return fresh(model.params) if keep_state else ()

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return kept if keep_state else fresh(ctx.params)

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        t, rate = state["t"] + 1, value_at(lr, ctx.round)
        m = {name: beta1 * state["m"][name] + (1 - beta1) * g for name, g in u.items()}
        v = {name: beta2 * state["v"][name] + (1 - beta2) * g.square() for name, g in u.items()}
        first, second = 1 - beta1**t, 1 - beta2**t
        step = {name: -rate * (m[name] / first) / ((v[name] / second).sqrt() + epsilon) for name in u}
        return step, {"m": m, "v": v, "t": t}

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return message, state if keep_state else kept

    if keep_state:
        return Optimiser(update, keep, begin=begin, end=end, momentum=None)
    return Optimiser(update, begin=begin, momentum=None)
