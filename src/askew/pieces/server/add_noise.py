"""Gaussian noise on the mean update: client-level differential privacy, with `clip_update` at the clients.

References:
    McMahan et al. 2018, "Learning Differentially Private Recurrent Language Models", algorithm 1.
"""

from __future__ import annotations

from typing import Any

import torch

from askew.core import rng
from askew.core.bounds import NonNegative, Positive
from askew.core.client_piece import ClientPiece, Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.core.statistic import Senders
from askew.core.tensors import Params, Tree


@piece("server")
def add_noise(multiplier: NonNegative, length: Positive) -> ServerPiece:
    """u <- u + sigma z with z ~ N(0, I) and sigma = multiplier length / |S|, fresh in each round.

    S are the clients of the round; `length` is that of their `clip_update`. The mean before it must
    be `mean("uniform")`: then no client's part of it is longer than length / |S|. What this
    promises is in `askew.privacy`.

    The paper draws each client by itself and divides by the number that is expected; here a
    round has a set of fixed size.

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
        return {name: v + sigma * z.view(v.shape).to(v.dtype)
                for (name, v), z in zip(u.items(), drawn, strict=True)}, state

    def check(plan: Plan) -> None:
        """What would void the promise."""
        if multiplier == 0:
            return
        one, two = torch.ones(2), torch.tensor([1.0, 2.0])
        weights = ServerChain(plan.server).weigh(Senders([0, 1], two, two, two, one))
        if weights[0] != weights[1]:
            raise AskewError("add_noise: clients must count the same before noise; use mean('uniform')")
        if len(plan.before) != 1:
            raise AskewError(f"add_noise: {plan.before[-1].name} stands between the mean and the noise; "
                             "put add_noise right behind the mean")
        ending = [p for p in plan.client if p.end is not ClientPiece.end]
        if not ending or ending[-1].bound != length:
            raise AskewError(f"add_noise: the clients' last piece must clip their updates to {length}; "
                             f"add clip_update({length}) at their end")
        if telling := [p.name for p in plan.client if p.sends]:
            raise AskewError(f"add_noise: what {telling[0]} sends besides the update would go out "
                             "without noise; leave it out")
        if reading := [p.name for p in plan.after if isinstance(p, ServerPiece) and _reads_cohort(p)]:
            raise AskewError(f"add_noise: {reading[0]} reads the clients' updates behind the noise; leave it out")

    return ServerPiece(update, check=check)


class _Closed:
    """A cohort of which only the size may be known."""

    def __len__(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Any:
        raise PermissionError

    def __getitem__(self, statistic: Any) -> Any:
        raise PermissionError


def _reads_cohort(server_piece: ServerPiece) -> bool:
    model = {"w": torch.ones(2)}
    closed: Any = _Closed()
    try:
        server_piece.update(model, server_piece.init(model),
                            ServerContext(model, 0, 1, rng.key(0, "trial"), closed, lambda params, epochs: params))
    except PermissionError:
        return True
    except Exception:  # it wants other tensors than these: of its statistics it must have told
        return bool(server_piece.needs)
    return False
