"""The server's learning rate."""

from __future__ import annotations

from askew.core.bounds import NonNegative
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree


@piece("server")
def scale(lr: NonNegative = 1.0) -> ServerPiece:
    """u <- lr * u.

    Args:
        lr: the server's rate eta (ozdayi2020, eq. (1)); 1 leaves the update as it is.

    Example:
        >>> server_update(scale(0.5), [(1,), (3,)])  # 0.5 (1 + 3) / 2
        tensor([1.])
    """
    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return {name: lr * v for name, v in u.items()}, state

    return ServerPiece(update)
