"""The server's learning rate."""

from __future__ import annotations

from askew.core.registry import piece
from askew.core.schedule import Rate, value_at
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree


@piece("server")
def scale(lr: Rate = 1.0) -> ServerPiece:
    """u <- lr * u.

    Args:
        lr: the server's rate eta (ozdayi2020, eq. (1)), or a schedule of it; 1 leaves the update as it is.

    Example:
        >>> server_update(scale(0.5), [(1,), (3,)])  # 0.5 (1 + 3) / 2
        tensor([1.])
    """
    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        rate = value_at(lr, ctx.round)
        return {name: rate * v for name, v in u.items()}, state

    return ServerPiece(update)
