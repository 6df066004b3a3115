"""Triton kernels of `client_conv2d`: per-client convolution as implicit matrix products on the matrix units.

Activations are channels last, so a client's examples are a matrix of B * H * W pixels by C channels. With R x S taps,

    forward           Y[m, o]  = sum over (tap, c) of X[m + tap, c] W[tap, c, o]
    input gradient    the same with W flipped over the taps and c, o exchanged, on a padding of R - 1 - p
    weight gradient   dW[(tap, c), o] = sum over m of X[m + tap, c] dY[m, o]

each for all clients in one launch. Sums are in fp32. Splitting the long sum of the weight gradient gives partial sums
that are added in a fixed order: the same seed gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _product(x, w, bias, y, M, PAD_H, PAD_W, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
             C: tl.constexpr, O: tl.constexpr, R: tl.constexpr, S: tl.constexpr,  # noqa: E741
             HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(2) * BN + tl.arange(0, BN)
    example = rows // (OH * OW)
    pixel = rows % (OH * OW)
    top = pixel // OW - PAD_H
    left = pixel % OW - PAD_W
    x += client * (M // (OH * OW)) * H * W * C
    w += client * R * S * C * O
    total = tl.zeros((BM, BN), tl.float32)
    for low in range(0, R * S * C, BK):
        k = low + tl.arange(0, BK)
        at_h = top[:, None] + (k // C // S)[None, :]
        at_w = left[:, None] + (k // C % S)[None, :]
        inside = (rows < M)[:, None] & (k < R * S * C)[None, :] & (at_h >= 0) & (at_h < H) & (at_w >= 0) & (at_w < W)
        a = tl.load(x + ((example[:, None] * H + at_h) * W + at_w) * C + (k % C)[None, :], mask=inside, other=0.0)
        b = tl.load(w + k[:, None] * O + columns[None, :], mask=(k < R * S * C)[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + client * O + columns, mask=columns < O, other=0.0).to(tl.float32)[None, :]
    tl.store(y + client * M * O + rows[:, None] * O + columns[None, :], total.to(y.dtype.element_ty),
             mask=(rows < M)[:, None] & (columns < O)[None, :])


@triton.jit
def _weight_gradient(x, dy, dw, db, M, PAD_H, PAD_W, CLIENTS, SHARE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
                     OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
                     R: tl.constexpr, S: tl.constexpr, SPLIT: tl.constexpr, PRECISION: tl.constexpr, BK: tl.constexpr,
                     BN: tl.constexpr, BM: tl.constexpr):
    client = (tl.program_id(1) // SPLIT).to(tl.int64)
    part = tl.program_id(1) % SPLIT
    block = tl.program_id(0) // tl.cdiv(O, BN)
    k = block * BK + tl.arange(0, BK)
    columns = (tl.program_id(0) % tl.cdiv(O, BN)) * BN + tl.arange(0, BN)
    x += client * (M // (OH * OW)) * H * W * C
    dy += client * M * O
    total = tl.zeros((BK, BN), tl.float32)
    sums = tl.zeros((BN,), tl.float32)
    for low in range(0, SHARE, BM):
        rows = part * SHARE + low + tl.arange(0, BM)
        example = rows // (OH * OW)
        pixel = rows % (OH * OW)
        at_h = (pixel // OW)[:, None] + (k // C // S - PAD_H)[None, :]
        at_w = (pixel % OW)[:, None] + (k // C % S - PAD_W)[None, :]
        inside = (rows < M)[:, None] & (k < R * S * C)[None, :] & (at_h >= 0) & (at_h < H) & (at_w >= 0) & (at_w < W)
        a = tl.load(x + ((example[:, None] * H + at_h) * W + at_w) * C + (k % C)[None, :], mask=inside, other=0.0)
        b = tl.load(dy + rows[:, None] * O + columns[None, :], mask=(rows < M)[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
        sums += tl.sum(b.to(tl.float32), axis=0)
    base = part.to(tl.int64) * CLIENTS + client
    tl.store(dw + base * R * S * C * O + k[:, None] * O + columns[None, :], total,
             mask=(k < R * S * C)[:, None] & (columns < O)[None, :])
    if block == 0:
        tl.store(db + base * O + columns, sums, mask=columns < O)


def _power(n: int, low: int, high: int) -> int:
    """The smallest power of two that holds n, within bounds."""
    return max(low, min(high, triton.next_power_of_2(n)))


def _multiply(x: Tensor, w: Tensor, bias: Tensor | None, clients: int, taps: tuple[int, int], padding: list[int]) -> Tensor:
    """x [N, C, H, W] channels last, w [K, R * S * C, O] -> [N, O, H', W'] channels last."""
    n, channels, height, width = x.shape
    outputs = w.shape[2]
    out_h, out_w = height + 2 * padding[0] - taps[0] + 1, width + 2 * padding[1] - taps[1] + 1
    y = torch.empty((n, out_h, out_w, outputs), device=x.device, dtype=x.dtype).permute(0, 3, 1, 2)
    rows = n // clients * out_h * out_w
    # Tile sizes measured on an H200 at the sizes of fednnnn2020's network; fp32 takes twice the shared memory of bf16.
    wide = x.dtype == torch.float32
    block_n, block_k = _power(outputs, 16, 128), _power(taps[0] * taps[1] * channels, 32, 64 if channels < 64 or wide else 128)
    block_m = 64 if wide or block_n == 128 else 128
    grid = (triton.cdiv(rows, block_m), clients, triton.cdiv(outputs, block_n))
    _product[grid](x, w, bias if bias is not None else w, y, rows, padding[0], padding[1], height, width, out_h, out_w,
                   channels, outputs, *taps, bias is not None, _precision(x), block_m, block_n, block_k, num_warps=4,
                   num_stages=2 if block_k == 128 else 3)
    return y


def _precision(x: Tensor) -> str:
    return "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "ieee"


@torch.library.custom_op("askew::client_conv2d", mutates_args=())
def implicit_gemm_conv(x: Tensor, weight: Tensor, bias: Tensor | None, padding: list[int]) -> Tensor:
    """Stride 1; `weight` and `bias` may be fp32 beside lower-precision activations: they are rounded on the way in."""
    clients, outputs, _, height, width = weight.shape
    flat = weight.to(x.dtype).permute(0, 3, 4, 2, 1).reshape(clients, -1, outputs).contiguous()
    return _multiply(x, flat, bias, clients, (height, width), padding)


@implicit_gemm_conv.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, padding: list[int]) -> Tensor:
    _, outputs, _, taps_h, taps_w = weight.shape
    n, _, height, width = x.shape
    shape = (n, height + 2 * padding[0] - taps_h + 1, width + 2 * padding[1] - taps_w + 1, outputs)
    return x.new_empty(shape).permute(0, 3, 1, 2)


@torch.library.custom_op("askew::client_conv2d_backward", mutates_args=())
def _gradients(x: Tensor, weight: Tensor, dy: Tensor, padding: list[int], want_dx: bool) -> tuple[Tensor, Tensor, Tensor]:
    clients, outputs, channels, taps_h, taps_w = weight.shape
    dy = dy.contiguous(memory_format=torch.channels_last)
    n, _, height, width = x.shape
    out_h, out_w = dy.shape[2:]
    rows = n // clients * out_h * out_w
    inner = taps_h * taps_w * channels
    wide = x.dtype == torch.float32
    block_k, block_n = _power(inner, 32, 64 if wide else 128), _power(outputs, 16, 64 if wide else 128)
    block_m = 64 if wide or channels >= 64 else 128
    tiles = triton.cdiv(inner, block_k) * triton.cdiv(outputs, block_n)
    # Enough programs to fill the chip, few enough that the partial sums stay small.
    split = max(1, min(16, triton.cdiv(1024, clients * tiles), rows // 1024))
    share = triton.cdiv(triton.cdiv(rows, split), block_m) * block_m
    dw = torch.empty((split, clients, inner, outputs), device=x.device, dtype=torch.float32)
    db = torch.empty((split, clients, outputs), device=x.device, dtype=torch.float32)
    _weight_gradient[(tiles, clients * split)](
        x, dy, dw, db, rows, padding[0], padding[1], clients, share, height, width, out_h, out_w, channels, outputs, taps_h, taps_w,
        split, _precision(x), block_k, block_n, block_m, num_warps=4, num_stages=3)
    dweight = dw.sum(dim=0).view(clients, taps_h, taps_w, channels, outputs).permute(0, 4, 3, 1, 2).contiguous()
    if want_dx:
        flipped = weight.to(x.dtype).flip(3, 4).permute(0, 3, 4, 1, 2).reshape(clients, -1, channels).contiguous()
        dx = _multiply(dy, flipped, None, clients, (taps_h, taps_w), [taps_h - 1 - padding[0], taps_w - 1 - padding[1]])
    else:
        dx = x.new_empty(0)
    return dx, dweight, db.sum(dim=0)


@_gradients.register_fake
def _(x: Tensor, weight: Tensor, dy: Tensor, padding: list[int], want_dx: bool) -> tuple[Tensor, Tensor, Tensor]:
    dx = torch.empty_like(x, memory_format=torch.channels_last) if want_dx else x.new_empty(0)
    return dx, weight.new_empty(weight.shape), weight.new_empty(weight.shape[:2])


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    dx, dw, db = torch.ops.askew.client_conv2d_backward(x, weight, dy, ctx.padding, ctx.needs_input_grad[0])
    return (dx if ctx.needs_input_grad[0] else None), dw, (db if ctx.has_bias else None), None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.padding = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


implicit_gemm_conv.register_autograd(_backward, setup_context=_setup)
