"""Norm normalisation: give the averaged update the average length of the clients' updates.

References:
    fednnnn2020, eq. (8)-(9): Norm-Norm, and the first half of FedNNNN.
"""

from __future__ import annotations

from typing import Literal

import torch

from askew.core.bounds import Positive
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, norm


@piece("server")
def rescale_to_mean_norm(beta: Positive = 1.0, per: Literal["model", "layer"] = "model") -> ServerPiece:
    """u <- beta (E / N) u, so that its length becomes beta E.

    N is the length of the averaged update, E the average length of the clients' updates; N <= E, and far below it
    when clients pull in different directions. Where N is nearly 0 (below 1e-6 E, the rounding error of a
    float32 sum) the direction means nothing: "we do not normalize the updating vector and return w_t as is" (section
    4.1). The update becomes 0, and `still` tells momentum behind it to leave the model alone, too.

    Args:
        beta: the length asked for, in units of E.
        per: "model" takes both lengths over all weights together, as printed; "layer" takes them tensor by tensor.

    Example:
        Updates (3, 4) and (3, -4): the mean is (3, 0), N = 3, E = 5; beta 1 gives (5, 0).

        >>> server_update(rescale_to_mean_norm(1.0), [(3, 4), (3, -4)])
        tensor([5., 0.])
    """
    def check(plan: Plan) -> None:
        if any(isinstance(p, ServerPiece) and p.trains for p in plan.before):
            raise AskewError("server: rescale_to_mean_norm compares the mean update with the clients' updates; "
                             "put it before the piece that trains at the server")

    def factors(u: Params, ctx: ServerContext) -> Params:
        """beta E / N of each tensor; 0 where N is nearly 0."""
        groups = [list(u)] if per == "model" else [[name] for name in u]
        result: Params = {}
        for names in groups:
            length = norm({name: u[name] for name in names})
            wanted = ctx.cohort.mean_norm(names).to(length.dtype)
            rate = torch.where(length > 1e-6 * wanted, beta * wanted / length.clamp_min(1e-38), 0.0)
            result |= dict.fromkeys(names, rate)
        return result

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        by = factors(u, ctx)
        return {name: by[name] * v for name, v in u.items()}, state

    def still(u: Params, ctx: ServerContext) -> Params:
        return {name: factor == 0 for name, factor in factors(u, ctx).items()}

    return ServerPiece(update, check=check, still=still)
