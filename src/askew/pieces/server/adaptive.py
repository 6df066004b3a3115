"""What FedAdam, FedYogi and FedAdagrad have in common: all but how the second moment goes on.

References:
    Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from askew.core.schedule import PositiveRate, value_at
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, zeros_like


def adaptive(lr: PositiveRate, beta1: float, tau: float, moment: Callable[[Tensor, Tensor], Tensor]) -> ServerPiece:
    """Steps lr m / (sqrt(v) + tau).

    Args:
        moment: v and u^2 -> the next v.
    """

    def init(params: Params) -> Tree:
        return {"m": zeros_like(params), "v": {name: torch.full_like(p, tau**2) for name, p in params.items()}}

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        m = {name: beta1 * state["m"][name] + (1 - beta1) * x for name, x in u.items()}
        v = {name: moment(state["v"][name], x.square()) for name, x in u.items()}
        rate = value_at(lr, ctx.round)
        return {name: rate * m[name] / (v[name].sqrt() + tau) for name in u}, {"m": m, "v": v}

    return ServerPiece(update, init, optimises=True)
