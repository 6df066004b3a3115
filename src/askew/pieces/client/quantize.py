"""Quantised uploads: what a client sends has few bits per weight.

References:
    fedcd2020, sections 2 and 3.4: models are compressed on devices and at the server. It does not print how; its
    authors' notebook rounds at random, on devices only: `quantize_at_random`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from askew.core.bounds import Bounds
from askew.core.client_piece import ClientContext, ClientPiece, Message, Plan, check_rounds_no_private
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.rounding import bytes_of, to_nearest
from askew.core.tensors import Tree, add, subtract


@piece("client")
def quantize(bits: Annotated[int, Bounds(2, 32)] = 8, what: Literal["model", "update"] = "model") -> ClientPiece:
    """Round each tensor that is sent to 2^bits - 1 evenly spaced values between -max|w| and max|w|.

        step = max|w| / (2^(bits - 1) - 1),   w <- step * round(w / step)

    The error of a weight is at most half a step, and the same in every round: what is trained in a round and is less
    than half a step is rounded away again.

    Args:
        bits: 2 to 31; 32 sends floats as they are.
        what: quantise the "model" w + u (fedcd2020) or the "update" u itself.

    Example:
        bits 3, w = (-0.9, 0.2, 0.3): step 0.9 / 3 = 0.3, so that w becomes (-0.9, 0.3, 0.3).

        >>> client_message(quantize(3), [-0.9, 0.2, 0.3])["update"]["w"]
        tensor([-0.9000,  0.3000,  0.3000])
    """
    if bits == 32:
        return ClientPiece()

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        u = message["update"]
        if what == "update":
            return {**message, "update": to_nearest(u, bits)}, kept
        return {**message, "update": subtract(to_nearest(add(ctx.start, u), bits), ctx.start)}, kept

    def check(plan: Plan) -> None:
        if what == "model":
            check_rounds_no_private("quantize", plan)
        if changing := [p.name for p in plan.after if isinstance(p, ClientPiece) and p.end is not ClientPiece.end
                        and p.payload is None and not p.enters]:
            raise AskewError(f"quantize must come last: what {changing[0]} adds behind it would not be on its grid")

    return ClientPiece(end=end, payload=lambda model: bytes_of(model, bits), check=check)
