"""Triton kernels of local response normalisation: one reading of the activations forward, one backward.

With a window of n channels around each, s_c = k + (alpha / n) sum_j a_j^2 and

    b_c  = a_c s_c^-beta
    da_j = db_j s_j^-beta - (2 alpha beta / n) a_j sum over c whose window holds j of db_c a_c s_c^(-beta - 1)

Both sums over windows are products with a band matrix. As library operations they take a dozen passes, and a third of
the time of hsu2019's network.

References:
    Krizhevsky, Sutskever and Hinton 2012, section 3.3.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_CHANNELS = 256  # all channels of a pixel lie in one tile


@triton.jit
def _forward(x, y, N, C: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, SCALE, BETA, K, PRECISION: tl.constexpr,
             BM: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, BC)
    at = rows[:, None] * C + c[None, :]
    real = (rows < N)[:, None] & (c < C)[None, :]
    a = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
    near = ((c[:, None] - c[None, :] >= -BEFORE) & (c[:, None] - c[None, :] <= AFTER)).to(tl.float32)  # [j, c]
    s = K + SCALE * tl.dot(a * a, near, input_precision=PRECISION)
    tl.store(y + at, (a * tl.exp2(-BETA * tl.log2(s))).to(y.dtype.element_ty), mask=real)


@triton.jit
def _backward(x, dy, dx, N, C: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, SCALE, BETA, K, PRECISION: tl.constexpr,
              BM: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, BC)
    at = rows[:, None] * C + c[None, :]
    real = (rows < N)[:, None] & (c < C)[None, :]
    a = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
    g = tl.load(dy + at, mask=real, other=0.0).to(tl.float32)
    apart = c[:, None] - c[None, :]
    near = ((apart >= -BEFORE) & (apart <= AFTER)).to(tl.float32)  # [j, c]: whether c's window holds j
    back = ((apart >= -AFTER) & (apart <= BEFORE)).to(tl.float32)  # [c, j]
    s = K + SCALE * tl.dot(a * a, near, input_precision=PRECISION)
    power = tl.exp2(-BETA * tl.log2(s))
    spread = tl.dot(g * a * power / s, back, input_precision=PRECISION)
    tl.store(dx + at, (g * power - 2.0 * SCALE * BETA * a * spread).to(dx.dtype.element_ty), mask=real)


def _launch(kernel: Any, tensors: list[Tensor], size: int, alpha: float, beta: float, k: float) -> None:
    x = tensors[0]
    channels = x.shape[1]
    pixels = x.numel() // channels
    wide = max(16, triton.next_power_of_2(channels))
    block = 128 if wide <= 64 else 32
    precision = "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "tf32x3"
    # torch pads size // 2 channels in front and (size - 1) // 2 behind.
    kernel[(triton.cdiv(pixels, block),)](*tensors, pixels, channels, size // 2, (size - 1) // 2, alpha / size, beta, k, precision,
                                          block, wide, num_warps=4)


@torch.library.custom_op("askew::local_response_norm", mutates_args=())
def local_response_norm(x: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """`F.local_response_norm` of channels-last images, in the type of x."""
    y = torch.empty_like(x)
    _launch(_forward, [x, y], size, alpha, beta, k)
    return y


@local_response_norm.register_fake
def _(x: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("askew::local_response_norm_backward", mutates_args=())
def _gradient(x: Tensor, dy: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    dx = torch.empty_like(x)
    _launch(_backward, [x, dy.to(x.dtype).contiguous(memory_format=torch.channels_last), dx], size, alpha, beta, k)
    return dx


@_gradient.register_fake
def _(x: Tensor, dy: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    return torch.empty_like(x)


def _back(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return torch.ops.askew.local_response_norm_backward(ctx.saved_tensors[0], dy, *ctx.numbers), None, None, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *ctx.numbers = inputs
    ctx.save_for_backward(x)


local_response_norm.register_autograd(_back, setup_context=_setup)
