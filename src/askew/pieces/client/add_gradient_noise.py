"""Gaussian noise on each step's gradient.

References:
    ozdayi2020, section 4.2 and table 3 (std 1e-4, together with the projection).
"""

from __future__ import annotations

from askew.core import rng
from askew.core.bounds import NonNegative
from askew.core.client_piece import ClientContext, OnGradient
from askew.core.registry import piece
from askew.core.tensors import Params, Tree


@piece("client")
def add_gradient_noise(std: NonNegative) -> OnGradient:
    """gradient <- gradient + std * z with z ~ N(0, I), fresh at each step, from the client's own stream.

    Args:
        std: standard deviation of the noise; 0 leaves the gradient as it is.

    Example:
        >>> noisy = client_update(add_gradient_noise(0.5), [3.0] * 10_000, w=[0.0] * 10_000)
        >>> round(float(noisy.mean()), 1), round(float(noisy.std()), 1)
        (3.0, 0.5)
    """

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        # One draw for all tensors: drawing takes some twenty operations, which many small tensors would repeat.
        drawn = rng.normal(ctx.key, sum(g.numel() for g in u.values())).split([g.numel() for g in u.values()])
        return {name: g + std * z.view(g.shape).to(g.dtype)
                for (name, g), z in zip(u.items(), drawn, strict=True)}, state

    return OnGradient(update)
