"""Quantised global models: what the server stores and sends has few bits per weight.

References:
    fedcd2020, sections 2 and 3.4: models are compressed on devices and at the server (at
    milestones; here in each round).
"""

from __future__ import annotations

from typing import Annotated, Literal

from askew.core.bounds import Bounds
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.rounding import bytes_of, to_nearest
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, add, subtract


@piece("server")
def quantize(bits: Annotated[int, Bounds(2, 32)] = 8, what: Literal["model", "update"] = "model") -> ServerPiece:
    """Round each tensor of the new global model to 2^bits - 1 evenly spaced values, as the client piece of that name.

    Args:
        bits: 2 to 31; 32 keeps floats as they are.
        what: quantise the "model" w + u or the "update" u itself.

    Example:
        bits 3, w = (-0.9, 0.2, 0.3): step 0.9 / 3 = 0.3, so that w becomes (-0.9, 0.3, 0.3).

        >>> server_update(quantize(3), [(-0.9, 0.2, 0.3)])
        tensor([-0.9000,  0.3000,  0.3000])
    """
    if bits == 32:
        return ServerPiece(lambda u, state, ctx: (u, state), watches=True)

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        if what == "update":
            return to_nearest(u, bits), state
        return subtract(to_nearest(add(ctx.params, u), bits), ctx.params), state

    def check(plan: Plan) -> None:
        if changing := [p.name for p in plan.after
                        if isinstance(p, ServerPiece) and not p.watches and p.payload is None]:
            raise AskewError(f"quantize must come last: what {changing[0]} adds behind it would not be on its grid")

    return ServerPiece(update, payload=lambda model: bytes_of(model, bits), check=check)
