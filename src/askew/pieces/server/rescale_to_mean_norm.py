"""Norm normalisation: give the averaged update the average length of the clients' updates.

References:
    fednnnn2020, eq. (8)-(9): Norm-Norm, and the first half of FedNNNN.
"""

from __future__ import annotations

from typing import Literal

import torch

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform, norm


@piece("server")
def rescale_to_mean_norm(beta: float = 1.0, per: Literal["model", "layer"] = "model") -> Transform:
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
    if isinstance(beta, float | int) and beta <= 0:
        raise AskewError(f"rescale_to_mean_norm: beta must be positive, got {beta}")

    def check(plan: Plan) -> None:
        if "train_on_server" in plan.before:
            raise AskewError("server: rescale_to_mean_norm compares the mean update with the clients' updates; "
                             "put it before train_on_server")

    def factors(u: Params, ctx: Context) -> Params:
        """beta E / N of each tensor; 0 where N is nearly 0."""
        assert ctx.cohort is not None, "rescale_to_mean_norm is a server piece"
        groups = [list(u)] if per == "model" else [[name] for name in u]
        result: Params = {}
        for names in groups:
            length = norm({name: u[name] for name in names})
            wanted = ctx.cohort.mean_norm(names).to(length.dtype)
            result |= dict.fromkeys(names, torch.where(length > 1e-6 * wanted, beta * wanted / length.clamp_min(1e-38), 0.0))
        return result

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        by = factors(u, ctx)
        return {name: by[name] * v for name, v in u.items()}, state

    def still(u: Params, ctx: Context) -> Params:
        return {name: factor == 0 for name, factor in factors(u, ctx).items()}

    return Transform(update, check=check, still=still)
