"""Stochastic gradient descent, the step that every client takes.

References:
    McMahan et al. 2017, algorithm 1 (ClientUpdate).
"""

from __future__ import annotations

from torch import Tensor

from askew.core.bounds import Decay, NonNegative
from askew.core.client_piece import ClientContext, Message, Optimiser
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.schedule import Rate, value_at
from askew.core.tensors import ModelState, Params, Tree, add, times, zeros_like


@piece("client")
def sgd(lr: Rate = 0.1, momentum: Decay = 0.0, weight_decay: NonNegative = 0.0, nesterov: bool = False,
        keep_momentum: bool = False) -> Optimiser:
    """g <- gradient + weight_decay w;  v <- momentum v + g;  update: -lr v, or -lr (g + momentum v) in Nesterov's form.

    The same maths as `torch.optim.SGD`. The momentum starts from 0 in each round, unless the client keeps it.

    Args:
        lr: learning rate, or a schedule of it: `decay(0.1, 0.995)`.
        momentum: the client's own momentum, within a round.
        weight_decay: factor of the L2 penalty's gradient.
        nesterov: look ahead by one more step of the momentum, in torch's form.
        keep_momentum: a client's momentum goes on where its last round left it, as in the
            programs of zhao2018 and fedcd2020.

    Example:
        lr 0.1, weight_decay 0.5, w = 2, gradient 1: the update is -0.1 (1 + 0.5 * 2) = -0.2.

        >>> client_update(sgd(lr=0.1, weight_decay=0.5), [1.0], w=[2.0])
        tensor([-0.2000])
    """
    with_momentum = isinstance(momentum, Tensor) or momentum > 0
    if nesterov and not with_momentum:
        raise AskewError("sgd: nesterov=True needs a momentum above 0, got 0.0")
    with_decay = isinstance(weight_decay, Tensor) or weight_decay > 0
    if keep_momentum and not with_momentum:
        raise AskewError("sgd: keep_momentum=True needs a momentum above 0, got 0.0")

    def keep(model: ModelState) -> Tree:
        return zeros_like(model.params)

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return kept if keep_momentum else zeros_like(ctx.params) if with_momentum else ()

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return message, state

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        rate = value_at(lr, ctx.round)
        if with_decay:
            u = add(u, times(ctx.params, weight_decay))
        if with_momentum:
            state = add(times(state, momentum), u)
            u = add(u, times(state, momentum)) if nesterov else state
        return times(u, -rate), state

    # A chain in which nothing happens at the end is spared the work of it.
    if keep_momentum:
        return Optimiser(update, keep, begin=begin, end=end, momentum=None)
    return Optimiser(update, begin=begin, momentum=None if nesterov else momentum)
