"""Quantised models: what travels and is stored has few bits per weight.

References:
    fedcd2020, sections 2 and 3.4: models are compressed on devices and at the server. It does not print how; its authors'
    notebook rounds at random, on devices only: `quantize_at_random`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform, add, subtract


@piece("upload", "server")
def quantize(bits: int = 8, what: Literal["model", "update"] = "model") -> Transform:
    """Round each tensor to 2^bits - 1 evenly spaced values between -max|w| and max|w|.

        step = max|w| / (2^(bits - 1) - 1),   w <- step * round(w / step)

    The error of a weight is at most half a step, and the same in every round: what is trained in a round and is less than
    half a step is rounded away again. In a client's upload the trained model is quantised before it is
    sent; in the server chain the new global model is, before it is stored and sent out.

    Args:
        bits: 2 to 31; 32 sends floats as they are.
        what: quantise the "model" w + u (fedcd2020) or the "update" u itself.

    Example:
        bits 3, w = (-0.9, 0.2, 0.3): step 0.9 / 3 = 0.3, so that w becomes (-0.9, 0.3, 0.3).

        >>> server_update(quantize(3), [(-0.9, 0.2, 0.3)])
        tensor([-0.9000,  0.3000,  0.3000])
    """
    if not 2 <= bits <= 32:
        raise AskewError(f"quantize: bits must be from 2 to 32, got {bits}")
    if bits == 32:
        return Transform(lambda u, state, ctx: (u, state))
    levels = 2 ** (bits - 1) - 1

    def rounded(v: Tensor) -> Tensor:
        step = v.abs().amax() / levels
        return torch.where(step > 0, torch.round(v / step.clamp_min(1e-38)) * step, v)

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        if what == "update":
            return {name: rounded(v) for name, v in u.items()}, state
        return subtract({name: rounded(v) for name, v in add(ctx.params, u).items()}, ctx.params), state

    def payload(model: Mapping[str, Tensor]) -> int:
        return sum((v.numel() * bits + 7) // 8 + 4 for v in model.values())  # 4: the tensor's step as a float

    def check(plan: Plan) -> None:
        behind = [name for name in plan.after if name not in ("evaluate_average", "quantize", "quantize_at_random")]
        if behind:
            raise AskewError(f"quantize must come last: what {behind[0]} adds behind it would not be on its grid")

    return Transform(update, payload=payload, check=check)
