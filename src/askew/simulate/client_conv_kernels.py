"""Triton kernels of `client_conv2d`: per-client convolution as implicit matrix products on the matrix units.

Activations are channels last, so a client's examples are a matrix of B * H * W pixels by C channels. With R x S taps,

    forward           Y[m, o]  = sum over (tap, c) of X[stride m + tap, c] W[tap, c, o]
    input gradient    the same with W flipped over the taps and c, o exchanged, on a padding of R - 1 - p; where the
                      stride is above 1, on dY with zeros between its pixels
    weight gradient   dW[(tap, c), o] = sum over m of X[stride m + tap, c] dY[m, o]

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
def _inside(first, size, TAPS: tl.constexpr):
    """Bit t says whether 0 <= first + t < size."""
    low = tl.minimum(tl.maximum(-first, 0), TAPS)
    high = tl.minimum(tl.maximum(size - first, 0), TAPS)
    return ((1 << high) - 1) & ~((1 << low) - 1)


@triton.jit
def _product(x, w, bias, y, M, PAD_H, PAD_W, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
             C: tl.constexpr, O: tl.constexpr, R: tl.constexpr, S: tl.constexpr,  # noqa: E741
             STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(2) * BN + tl.arange(0, BN)
    pixel = rows % (OH * OW)
    top = pixel // OW * STRIDE_H - PAD_H
    left = pixel % OW * STRIDE_W - PAD_W
    x += client * (M // (OH * OW)) * H * W * C
    w += client * R * S * C * O
    # An address is the sum of a term of the row and a term of the column: what is left to do for each element is little.
    begin = ((rows // (OH * OW) * H + top) * W + left) * C
    seen_h = tl.where(rows < M, _inside(top, H, R), 0)
    seen_w = _inside(left, W, S)
    total = tl.zeros((BM, BN), tl.float32)
    for low in range(0, R * S * C, BK):
        k = low + tl.arange(0, BK)
        tap_h = tl.minimum(k // (C * S), 31)  # beyond the last tap no bit is set
        tap_w = k // C % S
        inside = ((seen_h[:, None] >> tap_h[None, :]) & (seen_w[:, None] >> tap_w[None, :]) & 1) != 0
        a = tl.load(x + begin[:, None] + ((tap_h * W + tap_w) * C + k % C)[None, :], mask=inside, other=0.0)
        b = tl.load(w + k[:, None] * O + columns[None, :], mask=(k < R * S * C)[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + client * O + columns, mask=columns < O, other=0.0).to(tl.float32)[None, :]
    tl.store(y + client * M * O + rows[:, None] * O + columns[None, :], total.to(y.dtype.element_ty),
             mask=(rows < M)[:, None] & (columns < O)[None, :])


@triton.jit
def _weight_gradient(x, dy, dw, M, PAD_H, PAD_W, CLIENTS, SHARE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
                     OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
                     R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, SPLIT: tl.constexpr,
                     PRECISION: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    client = (tl.program_id(1) // SPLIT).to(tl.int64)
    part = tl.program_id(1) % SPLIT
    k = (tl.program_id(0) // tl.cdiv(O, BN)) * BK + tl.arange(0, BK)
    columns = (tl.program_id(0) % tl.cdiv(O, BN)) * BN + tl.arange(0, BN)
    tap_h = tl.minimum(k // (C * S), 31)
    tap_w = k // C % S
    offset = (tap_h * W + tap_w) * C + k % C
    x += client * (M // (OH * OW)) * H * W * C
    dy += client * M * O
    total = tl.zeros((BK, BN), tl.float32)
    for low in range(0, SHARE, BM):
        rows = part * SHARE + low + tl.arange(0, BM)
        pixel = rows % (OH * OW)
        top = pixel // OW * STRIDE_H - PAD_H
        left = pixel % OW * STRIDE_W - PAD_W
        begin = ((rows // (OH * OW) * H + top) * W + left) * C
        seen_h = tl.where(rows < M, _inside(top, H, R), 0)
        seen_w = _inside(left, W, S)
        inside = ((seen_h[:, None] >> tap_h[None, :]) & (seen_w[:, None] >> tap_w[None, :]) & 1) != 0
        a = tl.load(x + begin[:, None] + offset[None, :], mask=inside, other=0.0)
        b = tl.load(dy + rows[:, None] * O + columns[None, :], mask=(rows < M)[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
    base = part.to(tl.int64) * CLIENTS + client
    tl.store(dw + base * R * S * C * O + k[:, None] * O + columns[None, :], total,
             mask=(k < R * S * C)[:, None] & (columns < O)[None, :])


def _power(n: int, low: int, high: int) -> int:
    """The smallest power of two that holds n, within bounds."""
    return max(low, min(high, triton.next_power_of_2(n)))


def _multiply(x: Tensor, w: Tensor, bias: Tensor | None, clients: int, taps: tuple[int, int], stride: list[int],
              padding: list[int]) -> Tensor:
    """x [N, C, H, W] channels last, w [K, R * S * C, O] -> [N, O, H', W'] channels last."""
    n, channels, height, width = x.shape
    outputs = w.shape[2]
    out_h, out_w = _out_size(height, width, taps, stride, padding)
    y = torch.empty((n, out_h, out_w, outputs), device=x.device, dtype=x.dtype).permute(0, 3, 1, 2)
    rows = n // clients * out_h * out_w
    # Tile sizes measured on an H200 at the sizes of fednnnn2020's network; fp32 takes twice the shared memory of bf16.
    wide = x.dtype == torch.float32
    block_n, block_k = _power(outputs, 16, 128), _power(taps[0] * taps[1] * channels, 32, 64 if channels < 64 or wide else 128)
    block_m = 64 if wide or block_n == 128 else 128
    grid = (triton.cdiv(rows, block_m), clients, triton.cdiv(outputs, block_n))
    _product[grid](x, w, bias if bias is not None else w, y, rows, padding[0], padding[1], height, width, out_h, out_w,
                   channels, outputs, *taps, *stride, bias is not None, _precision(x), block_m, block_n, block_k, num_warps=4,
                   num_stages=2 if block_k == 128 else 3)
    return y


def _out_size(height: int, width: int, taps: tuple[int, int], stride: list[int], padding: list[int]) -> tuple[int, int]:
    return (height + 2 * padding[0] - taps[0]) // stride[0] + 1, (width + 2 * padding[1] - taps[1]) // stride[1] + 1


def _precision(x: Tensor) -> str:
    return "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "ieee"


@torch.library.custom_op("askew::client_conv2d", mutates_args=())
def implicit_gemm_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int]) -> Tensor:
    """`weight` and `bias` may be fp32 beside lower-precision activations: they are rounded on the way in."""
    clients, outputs, _, height, width = weight.shape
    flat = weight.to(x.dtype).permute(0, 3, 4, 2, 1).reshape(clients, -1, outputs).contiguous()
    return _multiply(x, flat, bias, clients, (height, width), stride, padding)


@implicit_gemm_conv.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int]) -> Tensor:
    n, _, height, width = x.shape
    size = _out_size(height, width, (weight.shape[3], weight.shape[4]), stride, padding)
    return x.new_empty((n, *size, weight.shape[1])).permute(0, 3, 1, 2)


@torch.library.custom_op("askew::client_conv2d_backward", mutates_args=())
def _gradients(x: Tensor, weight: Tensor, dy: Tensor, stride: list[int], padding: list[int],
               want_dx: bool) -> tuple[Tensor, Tensor]:
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
    split = max(1, min(64, triton.cdiv(1024, clients * tiles), rows // 512))
    share = triton.cdiv(triton.cdiv(rows, split), block_m) * block_m
    dw = torch.empty((split, clients, inner, outputs), device=x.device, dtype=torch.float32)
    _weight_gradient[(tiles, clients * split)](
        x, dy, dw, rows, padding[0], padding[1], clients, share, height, width, out_h, out_w, channels, outputs, taps_h, taps_w,
        *stride, split, _precision(x), block_k, block_n, block_m, num_warps=4, num_stages=3)
    total = dw.sum(dim=0) if split > 1 else dw[0]
    dweight = total.view(clients, taps_h, taps_w, channels, outputs).permute(0, 4, 3, 1, 2).contiguous()
    if want_dx:
        if max(stride) > 1:
            spread = dy.new_zeros((n, *_out_size(height, width, (taps_h, taps_w), [1, 1], padding), outputs)).permute(0, 3, 1, 2)
            spread[:, :, :: stride[0], :: stride[1]] = dy
            dy = spread
        flipped = weight.to(x.dtype).flip(3, 4).permute(0, 3, 4, 1, 2).reshape(clients, -1, channels).contiguous()
        dx = _multiply(dy, flipped, None, clients, (taps_h, taps_w), [1, 1], [taps_h - 1 - padding[0], taps_w - 1 - padding[1]])
    else:
        dx = x.new_empty(0)
    return dx, dweight


@_gradients.register_fake
def _(x: Tensor, weight: Tensor, dy: Tensor, stride: list[int], padding: list[int], want_dx: bool) -> tuple[Tensor, Tensor]:
    dx = torch.empty_like(x, memory_format=torch.channels_last) if want_dx else x.new_empty(0)
    return dx, weight.new_empty(weight.shape)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    dx, dw = torch.ops.askew.client_conv2d_backward(x, weight, dy, ctx.stride, ctx.padding, ctx.needs_input_grad[0])
    # Written out, so that a compiler joins it with what made dy.
    db = dy.float().unflatten(0, (weight.shape[0], -1)).sum(dim=(1, 3, 4)) if ctx.has_bias else None
    return (dx if ctx.needs_input_grad[0] else None), dw, db, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.stride, ctx.padding = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


implicit_gemm_conv.register_autograd(_backward, setup_context=_setup)
