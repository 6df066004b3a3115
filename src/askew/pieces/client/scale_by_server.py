"""A client's rate that the server lowers."""

from __future__ import annotations

from askew.core.client_piece import ClientContext, OnUpdate
from askew.core.registry import piece
from askew.core.tensors import Params, Tree


@piece("client")
def scale_by_server() -> OnUpdate:
    """u <- f u, where f is the "factor" that the server sent with the model (`plateau` does).

    Right behind the optimiser this is a rate of f times its `lr`: momentum is kept in gradients, not in steps.

    Example:
        >>> client_update([sgd(lr=0.5), scale_by_server()], [4.0], w=[0.0], shared={"factor": torch.tensor(0.1)})
        tensor([-0.2000])
    """

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: ctx.shared["factor"] * v for name, v in u.items()}, state

    return OnUpdate(update, wants=["factor"])
