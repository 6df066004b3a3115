"""Triton kernels of max pooling with windows that overlap, for channels-last images.

Forward keeps which tap of the window was the largest (one byte a value); backward, every input pixel adds up what comes
from the few windows that hold it and chose it: in a fixed order, so that the same seed gives the same bits. What
compilers make of the library's form takes seven times as long as reading and writing the memory.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(x, y, chosen, PIXELS, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr,
             R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
             BM: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    image = rows // (OH * OW)
    top = rows // OW % OH * STRIDE_H - PAD_H
    left = rows % OW * STRIDE_W - PAD_W
    best = tl.full((BM, BC), float("-inf"), tl.float32)
    tap = tl.zeros((BM, BC), tl.int32)
    for t in tl.static_range(R * S):
        h = top + t // S
        w = left + t % S
        inside = (rows < PIXELS) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        value = tl.load(x + (((image * H + h) * W + w) * C)[:, None] + c[None, :], mask=inside[:, None] & (c < C)[None, :],
                        other=float("-inf")).to(tl.float32)
        better = (value > best) | (value != value)  # the first of equals; not-a-number wins, as in torch
        best = tl.where(better, value, best)
        tap = tl.where(better, t, tap)
    at = rows[:, None] * C + c[None, :]
    real = (rows < PIXELS)[:, None] & (c < C)[None, :]
    tl.store(y + at, best.to(y.dtype.element_ty), mask=real)
    tl.store(chosen + at, tap.to(tl.int8), mask=real)


@triton.jit
def _backward(dy, chosen, dx, PIXELS, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr,
              R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PAD_H: tl.constexpr,
              PAD_W: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    image = rows // (H * W)
    h = rows // W % H + PAD_H
    w = rows % W + PAD_W
    total = tl.zeros((BM, BC), tl.float32)
    for i in tl.static_range((R + STRIDE_H - 1) // STRIDE_H):
        oh = h // STRIDE_H - i
        tap_h = h - oh * STRIDE_H
        for j in tl.static_range((S + STRIDE_W - 1) // STRIDE_W):
            ow = w // STRIDE_W - j
            tap_w = w - ow * STRIDE_W
            holds = (rows < PIXELS) & (oh >= 0) & (oh < OH) & (tap_h < R) & (ow >= 0) & (ow < OW) & (tap_w < S)
            at = (((image * OH + oh) * OW + ow) * C)[:, None] + c[None, :]
            real = holds[:, None] & (c < C)[None, :]
            tap = tl.load(chosen + at, mask=real, other=-1).to(tl.int32)
            g = tl.load(dy + at, mask=real, other=0.0).to(tl.float32)
            total += tl.where(tap == (tap_h * S + tap_w).to(tl.int32)[:, None], g, 0.0)
    tl.store(dx + rows[:, None] * C + c[None, :], total.to(dx.dtype.element_ty), mask=(rows < PIXELS)[:, None] & (c < C)[None, :])


def _launch(kernel: Any, tensors: list[Tensor], pixels: int, x_shape: tuple[int, ...], out: tuple[int, int], window: list[int],
            stride: list[int], padding: list[int]) -> None:
    _, channels, height, width = x_shape
    block_c = min(64, triton.next_power_of_2(channels))
    block_m = max(16, 2048 // block_c)
    kernel[(triton.cdiv(pixels, block_m), triton.cdiv(channels, block_c))](
        *tensors, pixels, height, width, *out, channels, *window, *stride, *padding, block_m, block_c, num_warps=4)


def _out_size(x: Tensor, window: list[int], stride: list[int], padding: list[int], ceil: bool) -> tuple[int, int]:
    height, width = (_windows(size, r, s, p, ceil) for size, r, s, p in zip(x.shape[2:], window, stride, padding, strict=True))
    return height, width


def _windows(size: int, window: int, stride: int, padding: int, ceil: bool) -> int:
    """As torch counts them: with `ceil`, one more that hangs over the end, if it begins within the image or its left padding."""
    count = (size + 2 * padding - window + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


@torch.library.custom_op("askew::max_pool2d", mutates_args=())
def _pool(x: Tensor, window: list[int], stride: list[int], padding: list[int], ceil: bool) -> tuple[Tensor, Tensor]:
    out = _out_size(x, window, stride, padding, ceil)
    y = torch.empty((x.shape[0], *out, x.shape[1]), device=x.device, dtype=x.dtype).permute(0, 3, 1, 2)
    chosen = torch.empty_like(y, dtype=torch.int8)
    _launch(_forward, [x, y, chosen], x.shape[0] * out[0] * out[1], tuple(x.shape), out, window, stride, padding)
    return y, chosen


@_pool.register_fake
def _(x: Tensor, window: list[int], stride: list[int], padding: list[int], ceil: bool) -> tuple[Tensor, Tensor]:
    y = x.new_empty((x.shape[0], *_out_size(x, window, stride, padding, ceil), x.shape[1])).permute(0, 3, 1, 2)
    return y, torch.empty_like(y, dtype=torch.int8)


@torch.library.custom_op("askew::max_pool2d_backward", mutates_args=())
def _gradient(dy: Tensor, chosen: Tensor, height: int, width: int, window: list[int], stride: list[int], padding: list[int]) -> Tensor:
    n, channels, *out = dy.shape
    dx = torch.empty((n, height, width, channels), device=dy.device, dtype=dy.dtype).permute(0, 3, 1, 2)
    _launch(_backward, [dy.contiguous(memory_format=torch.channels_last), chosen, dx], n * height * width, tuple(dx.shape),
            (out[0], out[1]), window, stride, padding)
    return dx


@_gradient.register_fake
def _(dy: Tensor, chosen: Tensor, height: int, width: int, window: list[int], stride: list[int], padding: list[int]) -> Tensor:
    return dy.new_empty((dy.shape[0], height, width, dy.shape[1])).permute(0, 3, 1, 2)


def _back(ctx: Any, dy: Tensor, _: Any) -> tuple[Any, ...]:
    return torch.ops.askew.max_pool2d_backward(dy, ctx.saved_tensors[0], *ctx.size, *ctx.numbers), None, None, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, *ctx.numbers, _ = inputs
    ctx.size = x.shape[2:]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


_pool.register_autograd(_back, setup_context=_setup)


def max_pool2d(x: Tensor, window: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], ceil: bool = False) -> Tensor:
    """`F.max_pool2d` of channels-last images."""
    return _pool(x, list(window), list(stride), list(padding), ceil)[0]
