"""Projected SGD: after each step, back onto a ball.

References:
    ozdayi2020, section 3.2 and table 3 (radius M = 3).
"""

from __future__ import annotations

from typing import Literal

import torch

from askew.core.bounds import Positive
from askew.core.client_piece import ClientContext, OnUpdate
from askew.core.registry import piece
from askew.core.tensors import Params, Tree, norm


@piece("client")
def project_to_ball(radius: Positive, centre: Literal["origin", "start"] = "origin") -> OnUpdate:
    """Where the model after the step, w + u, is farther than `radius` from the centre c, pull it back:

        w + u  <-  c + (w + u - c) * min(1, radius / ||w + u - c||)

    The paper's text bounds the local *model* (centre: the origin); a related program of its authors bounds the
    *update* (centre: the model that the round began with). Both are offered.

    Args:
        radius: M of the paper, an L2 norm over all weights together; infinity leaves the step as it is.
        centre: "origin" or "start".

    Example:
        radius 5, w = (3, 4), step (3, 4): w + u = (6, 8) has norm 10 and becomes (3, 4); the update is (0, 0).

        >>> client_update(project_to_ball(5.0), [3.0, 4.0], w=[3.0, 4.0])
        tensor([0., 0.])
    """

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        offset = {name: ctx.params[name] + v for name, v in u.items()}
        if centre == "start":
            offset = {name: v - ctx.start[name] for name, v in offset.items()}
        length = norm(offset)
        shrink = torch.where(length > radius, radius / length.clamp_min(1e-38), 1.0)
        # Written as u plus a correction, so that inside the ball the step stays bit for bit what it was.
        return {name: u[name] + (shrink - 1.0) * offset[name] for name in u}, state

    return OnUpdate(update)
