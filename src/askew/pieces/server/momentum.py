"""Momentum at the server, plain or in Nesterov's form.

References:
    hsu2019, section 4.2 (FedAvgM, Nesterov); ozdayi2020, eq. (2)-(3); fednnnn2020, eq. (10)-(11).
"""

from __future__ import annotations

import torch

from askew.core.bounds import Decay
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, add, times, zeros_like


@piece("server")
def momentum(beta: Decay = 0.9, nesterov: bool = False) -> ServerPiece:
    """Accumulate the updates of past rounds.

        v <- beta v + u
        update: v                     plain (ozdayi2020, fednnnn2020)
        update: u + beta v            Nesterov, the form torch.optim.SGD has (hsu2019)

    ozdayi2020's eq. (3) is printed "w = v + eta w"; it is read as w <- w + eta v, for which `scale` may follow.

    Where a piece before it wants the model to stay as it is (`ctx.still`: fednnnn2020 with N nearly 0), the update is
    0. The paper does not say what then becomes of d; "return w_t as is" is read as leaving the whole step out, so that
    v stays as it is.

    Args:
        beta: how much of the past is kept, in [0, 1); 0 leaves the update as it is.
        nesterov: look ahead by one step.

    Example:
        beta 0.5, updates 1, 1: plain gives 1, then 1.5; Nesterov gives 1.5, then 1 + 0.5 * 1.5 = 1.75.

        >>> server_update(momentum(0.5), [(1,)], [(1,)]), server_update(momentum(0.5, nesterov=True), [(1,)], [(1,)])
        (tensor([1.5000]), tensor([1.7500]))
    """
    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        v = add(times(state, beta), u)
        ahead = add(times(v, beta), u) if nesterov else v
        if ctx.still is not None:
            ahead = {name: torch.where(ctx.still[name], 0.0, step) for name, step in ahead.items()}
            v = {name: torch.where(ctx.still[name], state[name], new) for name, new in v.items()}
        return ahead, v

    return ServerPiece(update, zeros_like, optimises=True)
