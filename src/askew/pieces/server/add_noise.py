"""Gaussian noise on the mean update: client-level differential privacy, with `clip_update` at the clients.

References:
    McMahan et al. 2018, "Learning Differentially Private Recurrent Language Models", algorithm 1.
"""

from __future__ import annotations

import torch

from askew.core import rng
from askew.core.bounds import NonNegative, Positive
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.core.statistic import Senders
from askew.core.tensors import Params, Tree


@piece("server")
def add_noise(multiplier: NonNegative, length: Positive) -> ServerPiece:
    """u <- u + sigma z with z ~ N(0, I) and sigma = multiplier length / |S|, fresh in each round.

    S are the clients of the round; `length` is that of their `clip_update`. The mean before it must be `mean("uniform")`: then no
    client's part of it is longer than length / |S|. What this promises is in `askew.privacy`.

    The paper draws each client by itself and divides by the number that is expected; here a round has a set of fixed size.

    Args:
        multiplier: z of the paper: noise in units of what one client can do; 0 adds none.
        length: S of the paper.

    Example:
        Two clients, multiplier 0.5, length 4: sigma = 0.5 * 4 / 2 = 1.

        >>> noisy = server_update(add_noise(0.5, 4.0), [[3.0] * 10_000, [3.0] * 10_000])
        >>> round(float(noisy.mean()), 1), round(float(noisy.std()), 1)
        (3.0, 1.0)
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        sigma = multiplier * length / len(ctx.cohort)
        drawn = rng.normal(ctx.key, sum(v.numel() for v in u.values())).split([v.numel() for v in u.values()])
        return {name: v + sigma * z.view(v.shape).to(v.dtype) for (name, v), z in zip(u.items(), drawn, strict=True)}, state

    def check(plan: Plan) -> None:
        one, two = torch.ones(2), torch.tensor([1.0, 2.0])
        weights = ServerChain(plan.server).weigh(Senders([0, 1], two, two, two, one))
        if multiplier > 0 and weights[0] != weights[1]:
            raise AskewError("add_noise: clients must count the same before noise; use mean('uniform')")

    return ServerPiece(update, check=check)
