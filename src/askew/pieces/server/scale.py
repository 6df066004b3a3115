"""The server's learning rate."""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, State, Transform


@piece("server")
def scale(lr: float = 1.0) -> Transform:
    """u <- lr * u.

    Args:
        lr: the server's rate eta (ozdayi2020, eq. (1)); 1 leaves the update as it is.

    Example:
        >>> server_update(scale(0.5), [(1,), (3,)])  # 0.5 (1 + 3) / 2
        tensor([1.])
    """
    if isinstance(lr, float | int) and lr < 0:
        raise AskewError(f"scale: lr must not be negative, got {lr}")

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        return {name: lr * v for name, v in u.items()}, state

    return Transform(update)
