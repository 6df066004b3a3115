"""Matrix products of many clients' examples, each with its client's own weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def client_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y[k, b] = x[k, b] weight[k]^T + bias[k].

    Args:
        x: [K * B, ..., I], the clients' examples end to end.
        weight: [K, O, I].
        bias: [K, O] or None.

    Returns:
        [K * B, ..., O].
    """
    clients, outputs, inputs = weight.shape
    rows = x.reshape(clients, -1, inputs)
    if x.is_cuda:
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else rows.dtype
        result = _Products.apply(rows.to(kind), weight.to(kind))
        return (result if bias is None else result + bias.to(kind)[:, None]).view(*x.shape[:-1], outputs)
    across = weight.transpose(1, 2)
    result = torch.bmm(rows, across) if bias is None else torch.baddbmm(bias[:, None], rows, across)
    return result.view(*x.shape[:-1], outputs)


class _Products(torch.autograd.Function):
    """rows [K, B, I], weight [K, O, I] -> [K, B, O].

    Written out so that the gradient of the weight comes in the weight's own order: torch makes it transposed, and
    whoever adds it to the weight then reads it across the grain.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return torch.bmm(rows, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        return (torch.bmm(dy, weight) if ctx.needs_input_grad[0] else None,
                torch.bmm(dy.transpose(1, 2), rows) if ctx.needs_input_grad[1] else None)
