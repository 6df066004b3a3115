"""Quantised models whose rounding is random, so that it is right on average (stochastic rounding).

References:
    fedcd2020, section 3.4; the authors' notebook (jessijzhao/FedCD), `dorefa_g`: on devices only, after local training.
    Zhou et al. 2016, "DoReFa-Net: Training Low Bitwidth Convolutional Neural Networks with Low Bitwidth Gradients",
    where it quantises gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from askew.core import rng
from askew.core.bounds import Bounds
from askew.core.client_piece import ClientContext, ClientPiece, Message, Plan, check_rounds_no_private
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.tensors import Tree, num_bytes


@piece("client")
def quantize_at_random(bits: Annotated[int, Bounds(1, 32)] = 8) -> ClientPiece:
    """Round the weights of convolutions and dense layers at random to one of the two nearest of 2^bits values.

        s = max|w|,   n = 2^bits - 1,   x = n (w / (2 s) + 1/2)
        w <- 2 s (q / n - 1/2),   q = floor(x) + 1 with probability x - floor(x), else floor(x)

    The values lie evenly from -s to s, a step of 2 s / n apart; 0 is not among them. On average a weight keeps its
    value, E[q / n] = x / n, whatever the step: what clients train in a round survives their mean even where it is much
    less than a step, which `quantize` rounds away. The error of one weight is less than a step.

    A layer's bias is rounded to the grid of the layer's weights; one beyond s stays beyond it (the grid goes on).
    Everything else (BatchNorm, scalars) and all buffers travel as they are.

    Args:
        bits: 1 to 31; 32 sends floats as they are. Beyond 20 or so the rounding of float32 is no finer.

    Example:
        bits 2, w = [[-0.9, 0.2, 0.9]]: s = 0.9, n = 3, a step of 0.6; x = (0, 1.83, 3), so that 0.2 becomes 0.3 with
        probability 5/6 and -0.3 with 1/6, 0.2 on average; -0.9 and 0.9 stay. Of 600 clients with other keys:

        >>> model, piece = {"w": torch.tensor([[-0.9, 0.2, 0.9]])}, quantize_at_random(2)
        >>> message = {"update": {"w": torch.zeros(1, 3)}}
        >>> contexts = [ClientContext(model, model, 0, make_key=lambda k=k: rng.key(0, "x", k)) for k in range(600)]
        >>> sent = torch.stack([piece.end(message, (), (), ctx)[0]["update"]["w"][0] for ctx in contexts])
        >>> [round(v, 1) for v in sorted(set((model["w"][0] + sent)[:, 1].tolist()))]
        [-0.3, 0.3]
        >>> bool(sent[:, 1].mean().abs() < 0.03)
        True
    """
    if bits == 32:
        return ClientPiece()
    levels = 2**bits - 1

    def rounded(v: Tensor, scale: Tensor, key: Tensor) -> Tensor:
        x = levels * (v / (2 * torch.where(scale > 0, scale, 1.0)) + 0.5)
        below = x.floor()
        drawn = rng.uniform(key, v.numel()).view(v.shape)
        # Not floor(x + drawn): near 1 that sum rounds up, and would carry the largest weight off the grid.
        q = below + (drawn < x - below).to(v.dtype)
        return torch.where(scale > 0, 2 * scale * (q / levels - 0.5), v)

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        u = message["update"]
        grids = _grids(u)
        trained = {name: ctx.start[name] + u[name] for name in grids}
        scales = {name: trained[name].abs().amax() for name in dict.fromkeys(grids.values())}
        # One draw per tensor: once per round its operations cost little, and the memory is that of the largest tensor.
        sent = {name: rounded(trained[name], scales[grid], rng.fold(ctx.key, i))
                for i, (name, grid) in enumerate(grids.items())}
        return {**message,
                "update": {name: sent[name] - ctx.start[name] if name in sent else v for name, v in u.items()}}, kept

    def payload(model: Mapping[str, Tensor]) -> int:
        weights = {name: model[name] for name in _grids(model).values()}
        rest = {name: v for name, v in model.items() if name not in weights}
        # 4: the scale as a float. Biases count as floats: one beyond the scale does not fit the bits.
        return sum((v.numel() * bits + 7) // 8 + 4 for v in weights.values()) + num_bytes(rest)

    def check(plan: Plan) -> None:
        check_rounds_no_private("quantize_at_random", plan)
        if changing := [p.name for p in plan.after if not (isinstance(p, ClientPiece) and p.enters)]:
            raise AskewError(f"quantize_at_random must come last: what {changing[0]} adds behind it "
                             "would not be on its grid")

    return ClientPiece(end=end, payload=payload, check=check)


def _grids(model: Mapping[str, Tensor]) -> dict[str, str]:
    """Tensor that is rounded -> tensor whose largest weight is its scale.

    A piece sees tensors, not layers: what has two axes or more (without a client axis, which `vmap` hides) is taken for
    the weights of a convolution or dense layer, as it is in the authors' network. An embedding, which the notebook
    would leave alone, is taken for one too.
    """
    # fc.bias -> fc.weight
    beside = {name: name.removesuffix("bias") + "weight" if name.endswith("bias") else name for name in model}
    return {name: weight for name, weight in beside.items() if weight in model and model[weight].ndim >= 2}
