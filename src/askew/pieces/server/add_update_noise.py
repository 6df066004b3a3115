"""Gaussian noise on the update, as a regulariser.

References:
    A program of ozdayi2020's authors (TinfoilHat0/Defending-Against-Backdoors-with-Robust-Learning-Rate, commit
    4fe6849), which adds it to the aggregate; the paper's text adds it to gradients (`add_gradient_noise`).
"""

from __future__ import annotations

from askew.core import rng
from askew.core.bounds import NonNegative
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree


@piece("server")
def add_update_noise(std: NonNegative) -> ServerPiece:
    """u <- u + std * z with z ~ N(0, I), fresh in each round. It promises no privacy: that is `add_noise`.

    Args:
        std: standard deviation of the noise; 0 leaves the update as it is.

    Example:
        >>> noisy = server_update(add_update_noise(0.5), [[3.0] * 10_000])
        >>> round(float(noisy.mean()), 1), round(float(noisy.std()), 1)
        (3.0, 0.5)
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        drawn = rng.normal(ctx.key, sum(v.numel() for v in u.values())).split([v.numel() for v in u.values()])
        noise = {name: z.view(v.shape).to(v.dtype) for (name, v), z in zip(u.items(), drawn, strict=True)}
        return {name: v + std * noise[name] for name, v in u.items()}, state

    return ServerPiece(update)
