"""Stochastic gradient descent, the step that every client takes.

References:
    McMahan et al. 2017, algorithm 1 (ClientUpdate).
"""

from __future__ import annotations

import torch
from torch import Tensor

from askew.core.bounds import Decay, NonNegative
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.schedule import Rate, value_at
from askew.core.transform import Context, Params, State, Transform


@piece("client")
def sgd(lr: Rate = 0.1, momentum: Decay = 0.0, weight_decay: NonNegative = 0.0, nesterov: bool = False) -> Transform:
    """g <- gradient + weight_decay w;  v <- momentum v + g;  update: -lr v, or -lr (g + momentum v) in Nesterov's form.

    The same maths as `torch.optim.SGD`. The momentum starts from 0 in each round, since a client keeps no state.

    Args:
        lr: learning rate, or a schedule of it: `decay(0.1, 0.995)`.
        momentum: the client's own momentum, within a round.
        weight_decay: factor of the L2 penalty's gradient.
        nesterov: look ahead by one more step of the momentum, in torch's form.

    Example:
        lr 0.1, weight_decay 0.5, w = 2, gradient 1: the update is -0.1 (1 + 0.5 * 2) = -0.2.

        >>> client_update(sgd(lr=0.1, weight_decay=0.5), [1.0], w=[2.0])
        tensor([-0.2000])
    """
    with_momentum = isinstance(momentum, Tensor) or momentum > 0
    if nesterov and not with_momentum:
        raise AskewError("sgd: nesterov=True needs a momentum above 0, got 0.0")
    with_decay = isinstance(weight_decay, Tensor) or weight_decay > 0

    def init(params: Params) -> State:
        return {name: torch.zeros_like(v) for name, v in params.items()} if with_momentum else ()

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        rate = value_at(lr, ctx.round)
        if with_decay:
            u = {name: g + weight_decay * ctx.params[name] for name, g in u.items()}
        if with_momentum:
            state = {name: momentum * state[name] + g for name, g in u.items()}
            u = {name: g + momentum * state[name] for name, g in u.items()} if nesterov else state
        return {name: -rate * g for name, g in u.items()}, state

    def add_to(params: Params, u: Params, ctx: Context) -> None:
        """w <- (1 - rate weight_decay) w - rate g, with no memory but the weights' own."""
        rate = float(value_at(lr, ctx.round))
        for name, w in params.items():
            if with_decay:
                w.mul_(1 - rate * float(weight_decay))
            w.add_(u[name], alpha=-rate)

    return Transform(update, init, acts_on="source", elementwise=True, in_place=None if with_momentum else add_to)
