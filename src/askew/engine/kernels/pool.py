"""Max pooling in steps of two pixels, with a rectifier behind it; the kernels are for channels-last images.

Forward keeps which tap of the window was the largest (one byte per value, none where the rectifier shuts);
backward, each 2 x 2 pixels add up what comes from the windows that hold and chose them: in a fixed order, so that
the same seed gives the same bits. What compilers make of the library's form takes four to seven times as long as
reading and writing the memory.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.core.kernel import has_kernels, jit, tl, triton
from askew.core.opaque import opaque
from askew.engine.tuning import POOL_TILE

MOST_POOLED = 127  # pixels in a window: the kernels keep in one byte which was the largest


def max_pool2d(x: Tensor, window: tuple[int, int], padding: tuple[int, int], ceil: bool = False,
               rectify: bool = False) -> Tensor:
    """`F.max_pool2d` with a stride of 2, with `rectify` followed by `F.relu`."""
    if has_kernels(x) and x.ndim == 4:
        return _pool(x.contiguous(memory_format=torch.channels_last), list(window), list(padding), ceil, rectify)[0]
    y = F.max_pool2d(x, window, 2, padding, ceil_mode=ceil)
    return F.relu(y) if rectify else y


@jit
def _rows(LONG: tl.constexpr, BM: tl.constexpr):
    """This program's work. Long numbers where there are more than 2^31 values: dividing them takes far longer."""
    if LONG:
        return tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    else:
        return tl.program_id(0) * BM + tl.arange(0, BM)


@jit
def _forward_kernel(x, y, chosen, PIXELS, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
                    C: tl.constexpr, R: tl.constexpr, S: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
                    RECTIFY: tl.constexpr, LONG: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    rows = _rows(LONG, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    image = rows // (OH * OW)
    top = rows // OW % OH * 2 - PAD_H
    left = rows % OW * 2 - PAD_W
    best = tl.full((BM, BC), float("-inf"), tl.float32)
    tap = tl.zeros((BM, BC), tl.int32)
    for t in tl.static_range(R * S):
        h = top + t // S
        w = left + t % S
        inside = (rows < PIXELS) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        value = tl.load(x + (((image * H + h) * W + w) * C)[:, None] + c[None, :],
                        mask=inside[:, None] & (c < C)[None, :], other=float("-inf")).to(tl.float32)
        better = (value > best) | (value != value)  # the first of equals; not-a-number wins, as in torch
        best = tl.where(better, value, best)
        tap = tl.where(better, t, tap)
    if RECTIFY:
        tap = tl.where(best <= 0.0, -1, tap)  # in place of a tap: no gradient
        best = tl.where(best <= 0.0, 0.0, best)
    at = rows[:, None] * C + c[None, :]
    real = (rows < PIXELS)[:, None] & (c < C)[None, :]
    tl.store(y + at, best.to(y.dtype.element_ty), mask=real)
    tl.store(chosen + at, tap.to(tl.int8), mask=real)


@jit
def _put(dx, total, image, h, w, c, real, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr):
    inside = real & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    tl.store(dx + (((image * H + h) * W + w) * C)[:, None] + c[None, :], total.to(dx.dtype.element_ty),
             mask=inside[:, None] & (c < C)[None, :])


@jit
def _backward_kernel(dy, chosen, dx, BLOCKS, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
                     C: tl.constexpr, R: tl.constexpr, S: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
                     LONG: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    rows = _rows(LONG, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    high: tl.constexpr = (H + PAD_H + 1) // 2  # blocks of 2 x 2 pixels, where padding is counted in
    wide: tl.constexpr = (W + PAD_W + 1) // 2
    image = rows // (high * wide)
    i = rows // wide % high
    j = rows % wide
    a = tl.zeros((BM, BC), tl.float32)  # a b
    b = tl.zeros((BM, BC), tl.float32)  # d e
    d = tl.zeros((BM, BC), tl.float32)
    e = tl.zeros((BM, BC), tl.float32)
    for m in tl.static_range((R + 1) // 2):
        for n in tl.static_range((S + 1) // 2):  # the windows that hold the block
            holds = (rows < BLOCKS) & (i >= m) & (i - m < OH) & (j >= n) & (j - n < OW)
            at = (((image * OH + i - m) * OW + j - n) * C)[:, None] + c[None, :]
            real = holds[:, None] & (c < C)[None, :]
            tap = tl.load(chosen + at, mask=real, other=-1).to(tl.int32)
            g = tl.load(dy + at, mask=real, other=0.0).to(tl.float32)
            first = 2 * m * S + 2 * n
            a += tl.where(tap == first, g, 0.0)
            if 2 * n + 1 < S:
                b += tl.where(tap == first + 1, g, 0.0)
            if 2 * m + 1 < R:
                d += tl.where(tap == first + S, g, 0.0)
                if 2 * n + 1 < S:
                    e += tl.where(tap == first + S + 1, g, 0.0)
    h = 2 * i - PAD_H
    w = 2 * j - PAD_W
    _put(dx, a, image, h, w, c, rows < BLOCKS, H, W, C)
    _put(dx, b, image, h, w + 1, c, rows < BLOCKS, H, W, C)
    _put(dx, d, image, h + 1, w, c, rows < BLOCKS, H, W, C)
    _put(dx, e, image, h + 1, w + 1, c, rows < BLOCKS, H, W, C)


def _launch(kernel: Any, tensors: list[Tensor], count: int, x_shape: tuple[int, ...], out: tuple[int, int],
            window: list[int], padding: list[int], *options: bool, warps: int) -> None:
    _, channels, height, width = x_shape
    block_c = min(64, triton.next_power_of_2(channels))
    block_m = POOL_TILE // block_c
    kernel[(triton.cdiv(count, block_m), triton.cdiv(channels, block_c))](
        *tensors, count, height, width, *out, channels, *window, *padding, *options,
        max(map(Tensor.numel, tensors)) >= 1 << 31, block_m, block_c, num_warps=warps)


def _out_size(x: Tensor, window: list[int], padding: list[int], ceil: bool) -> tuple[int, int]:
    height, width = (_windows(size, r, p, ceil) for size, r, p in zip(x.shape[2:], window, padding, strict=True))
    return height, width


def _windows(size: int, window: int, padding: int, ceil: bool) -> int:
    """As torch counts them: with `ceil`, one more, over the end, if it begins within the image or its left padding."""
    count = (size + 2 * padding - window + int(ceil)) // 2 + 1
    return count - 1 if ceil and 2 * (count - 1) >= size + padding else count


@opaque("max_pool2d")
def _pool(x: Tensor, window: list[int], padding: list[int], ceil: bool, rectify: bool) -> tuple[Tensor, Tensor]:
    out = _out_size(x, window, padding, ceil)
    y = torch.empty((x.shape[0], *out, x.shape[1]), device=x.device, dtype=x.dtype).permute(0, 3, 1, 2)
    chosen = torch.empty_like(y, dtype=torch.int8)
    _launch(_forward_kernel, [x, y, chosen], x.shape[0] * out[0] * out[1], tuple(x.shape), out, window, padding,
            rectify, warps=8)
    return y, chosen


@_pool.register_fake
def _(x: Tensor, window: list[int], padding: list[int], ceil: bool, rectify: bool) -> tuple[Tensor, Tensor]:
    y = x.new_empty((x.shape[0], *_out_size(x, window, padding, ceil), x.shape[1])).permute(0, 3, 1, 2)
    return y, torch.empty_like(y, dtype=torch.int8)


@opaque("max_pool2d_backward")
def _gradient(dy: Tensor, chosen: Tensor, height: int, width: int, window: list[int], padding: list[int]) -> Tensor:
    n, channels, *out = dy.shape
    dx = torch.empty((n, height, width, channels), device=dy.device, dtype=dy.dtype).permute(0, 3, 1, 2)
    blocks = n * ((height + padding[0] + 1) // 2) * ((width + padding[1] + 1) // 2)
    _launch(_backward_kernel, [dy.contiguous(memory_format=torch.channels_last), chosen, dx], blocks, tuple(dx.shape),
            (out[0], out[1]), window, padding, warps=4)
    return dx


@_gradient.register_fake
def _(dy: Tensor, chosen: Tensor, height: int, width: int, window: list[int], padding: list[int]) -> Tensor:
    return dy.new_empty((dy.shape[0], height, width, dy.shape[1])).permute(0, 3, 1, 2)


def _back(ctx: Any, dy: Tensor, _: Any) -> tuple[Any, ...]:
    dx = torch.ops.askew.max_pool2d_backward(dy, ctx.saved_tensors[0], *ctx.size, ctx.window, ctx.padding)
    return dx, None, None, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, ctx.window, ctx.padding, *_ = inputs
    ctx.size = x.shape[2:]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


_pool.register_autograd(_back, setup_context=_setup)
