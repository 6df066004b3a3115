"""Stochastic gradient descent, the step that every client takes.

References:
    McMahan et al. 2017, algorithm 1 (ClientUpdate).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from askew.core.client_piece import ClientContext, Message, Optimiser
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.tensors import Params, Tree, zeros_like


@piece("client")
def sgd(lr: float = 0.1, momentum: float = 0.0, weight_decay: float = 0.0, lr_decay: float = 1.0,
        lr_drops: Sequence[int] = (), lr_drop: float = 0.1, nesterov: bool = False,
        keep_momentum: bool = False) -> Optimiser:
    """g <- gradient + weight_decay w;  v <- momentum v + g;  update: -rate v, or -rate (g + momentum v) in Nesterov's form.

    The same maths as `torch.optim.SGD`. The momentum starts from 0 in each round, unless the client keeps it.

    Args:
        lr: learning rate in the first round.
        momentum: the client's own momentum, within a round.
        weight_decay: factor of the L2 penalty's gradient.
        lr_decay: the rate is multiplied by this after each round (zhao2018: 0.995 or 0.992).
        lr_drops: rounds after which the rate is multiplied by `lr_drop` (fedcd2020's notebook: 25, 50, 75).
        lr_drop: the factor of these drops.
        nesterov: look ahead by one more step of the momentum, in torch's form.
        keep_momentum: a client's momentum goes on where its last round left it, as in the programs of zhao2018 and fedcd2020.

    Example:
        lr 0.1, weight_decay 0.5, w = 2, gradient 1: the update is -0.1 (1 + 0.5 * 2) = -0.2.

        >>> client_update(sgd(lr=0.1, weight_decay=0.5), [1.0], w=[2.0])
        tensor([-0.2000])
    """
    for name, value in (("lr", lr), ("weight_decay", weight_decay)):
        if isinstance(value, float | int) and value < 0:
            raise AskewError(f"sgd: {name} must not be negative, got {value}")
    if isinstance(momentum, float | int) and not 0 <= momentum < 1:
        raise AskewError(f"sgd: momentum must be in [0, 1), got {momentum}")
    if isinstance(lr_decay, float | int) and not 0 < lr_decay <= 1:
        raise AskewError(f"sgd: lr_decay must be in (0, 1], got {lr_decay}")
    with_momentum = isinstance(momentum, Tensor) or momentum > 0
    if nesterov and not with_momentum:
        raise AskewError("sgd: nesterov=True needs a momentum above 0, got 0.0")
    with_decay = isinstance(weight_decay, Tensor) or weight_decay > 0

    if keep_momentum and not with_momentum:
        raise AskewError("sgd: keep_momentum=True needs a momentum above 0, got 0.0")

    def keep(params: Params) -> Tree:
        return zeros_like(params)

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return kept if keep_momentum else zeros_like(ctx.params) if with_momentum else ()

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return message, state

    def rate_of(ctx: ClientContext) -> float | Tensor:
        rate: float | Tensor = lr
        if isinstance(lr_decay, Tensor) or lr_decay != 1:  # on a GPU the round is a tensor, and a power costs
            rate = rate * lr_decay**ctx.round
        if lr_drops:
            rate = rate * lr_drop ** sum(ctx.round >= at for at in lr_drops)
        return rate

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        rate = rate_of(ctx)
        if with_decay:
            u = {name: g + weight_decay * ctx.params[name] for name, g in u.items()}
        if with_momentum:
            state = {name: momentum * state[name] + g for name, g in u.items()}
            u = {name: g + momentum * state[name] for name, g in u.items()} if nesterov else state
        return {name: -rate * g for name, g in u.items()}, state

    # A chain in which nothing happens at the end is spared the work of it.
    return Optimiser(update, keep, begin=begin, end=end) if keep_momentum else Optimiser(update, begin=begin)
