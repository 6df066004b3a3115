"""Convolution of many clients' examples, each with its client's own weights.

On a GPU, grouped convolutions of the libraries launch one small kernel per client; here one kernel serves all clients,
as an implicit matrix product on the matrix units. Elsewhere, and for dilated or grouped kernels, one grouped
convolution does it. Activations are channels last, so a client's examples are a matrix of B * H * W pixels by C
channels. With R x S taps,

    forward           Y[m, o]  = sum over (tap, c) of X[stride m + tap, c] W[tap, c, o]
    input gradient    the same with W flipped over the taps and c, o exchanged, on a padding of R - 1 - p; where the
                      stride is above 1, on dY with zeros between its pixels
    weight gradient   dW[(tap, c), o] = sum over m of X[stride m + tap, c] dY[m, o]

each for all clients in one launch. Weights lie as [K, R, S, C, O]. Sums are in fp32. Splitting the long sum of the
weight gradient gives partial sums that are added in a fixed order: the same seed gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.core.kernel import has_kernels, jit, tl, triton
from askew.core.opaque import opaque
from askew.engine.tuning import ROW_OF_TAPS

Pair = tuple[int, ...]
KERNEL_ORDER = (0, 3, 4, 2, 1)  # [K, O, C, R, S] -> [K, R, S, C, O], as the kernels read weights
MOST_TAPS = 30  # in each direction: the kernels keep which taps lie inside the image as one bit each


def client_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, dilation: Pair,
                  groups: int = 1) -> Tensor:
    """y[k, b] = conv2d(x[k, b], weight[k]) + bias[k].

    Args:
        x: [K * B, C, H, W], the clients' examples end to end.
        weight: [K, O, C / groups, R, S].
        bias: [K, O] or None.

    Returns:
        [K * B, O, H', W'].
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if has_kernels(x) and groups == 1 and tuple(dilation) == (1, 1) and max(weight.shape[3:]) <= MOST_TAPS:
        stride, padding = tuple(map(int, stride)), tuple(map(int, padding))
        if not x.requires_grad and x.shape[1] * weight.shape[4] <= ROW_OF_TAPS:
            x, weight, stride, padding = taps_as_channels(x, weight, stride, padding)
        flat = weight.to(x.dtype).permute(KERNEL_ORDER).contiguous()  # no copy where the weights are kept like this
        bias = None if bias is None else bias.contiguous()  # a frozen one is one client's, repeated
        return implicit_gemm_conv(x.contiguous(memory_format=torch.channels_last), flat, bias, list(stride),
                                  list(padding))
    clients, outputs = weight.shape[:2]
    # [K * B, C, H, W] -> [B, K * C, H, W]: the clients side by side as groups.
    wide = x.unflatten(0, (clients, -1)).transpose(0, 1).flatten(1, 2)
    y = F.conv2d(wide, weight.to(x.dtype).flatten(0, 1), None if bias is None else bias.to(x.dtype).flatten(), stride,
                 padding, dilation, clients * groups)
    return y.unflatten(1, (clients, outputs)).transpose(0, 1).flatten(0, 1)


def taps_as_channels(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> tuple[Tensor, Tensor, Pair, Pair]:
    """The same convolution with kernels one pixel wide: what lay side by side in a row becomes channels of a pixel.

    Images of one or three channels are read value by value otherwise, since only channels are neighbours in
    memory; S taps of C channels, filled up with zeros to a power of two, are read at once.

    Args:
        x: [N, C, H, W].
        weight: [K, O, C, R, S].

    Returns:
        x' [N, P, H, W'], weight' [K, O, P, R, 1] with P at least S C, stride' and padding'.
    """
    taps, channels = weight.shape[4], weight.shape[2]
    missing = (1 << (taps * channels - 1).bit_length()) - taps * channels
    rows = F.pad(x, (padding[1], padding[1])).unfold(3, taps, stride[1])  # [N, C, H, W', S]
    pixels = F.pad(rows.permute(0, 2, 3, 4, 1).flatten(3), (0, missing))  # [N, H, W', P]
    kernels = F.pad(weight.permute(0, 1, 3, 4, 2).flatten(3), (0, missing))  # [K, O, R, P]
    return pixels.permute(0, 3, 1, 2), kernels.transpose(2, 3)[..., None], (stride[0], 1), (padding[0], 0)


@jit
def _inside(first, size, TAPS: tl.constexpr):
    """Bit t says whether 0 <= first + t < size."""
    low = tl.minimum(tl.maximum(-first, 0), TAPS)
    high = tl.minimum(tl.maximum(size - first, 0), TAPS)
    return ((1 << high) - 1) & ~((1 << low) - 1)


@jit
def _product_kernel(x, w, bias, y, M, PAD_H, PAD_W,
                    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
                    C: tl.constexpr, O: tl.constexpr, R: tl.constexpr, S: tl.constexpr,  # noqa: E741
                    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, FLIPPED: tl.constexpr, HAS_BIAS: tl.constexpr,
                    PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(2) * BN + tl.arange(0, BN)
    pixel = rows % (OH * OW)
    top = pixel // OW * STRIDE_H - PAD_H
    left = pixel % OW * STRIDE_W - PAD_W
    x += client * (M // (OH * OW)) * H * W * C
    w += client * R * S * C * O
    # An address is the sum of a term of the row and a term of the column: what is left to
    # do for each element is little.
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
        # Flipped, w is [R, S, O, C] here: its last tap comes first, and it is read along its rows.
        row = (R * S - 1 - k // C) * O * C + k % C if FLIPPED else k * O
        place = row[:, None] + columns[None, :] * (C if FLIPPED else 1)
        b = tl.load(w + place, mask=(k < R * S * C)[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + client * O + columns, mask=columns < O, other=0.0).to(tl.float32)[None, :]
    tl.store(y + client * M * O + rows[:, None] * O + columns[None, :], total.to(y.dtype.element_ty),
             mask=(rows < M)[:, None] & (columns < O)[None, :])


@jit
def _weight_gradient_kernel(x, dy, dw, IMAGES, PAD_H, PAD_W, CLIENTS, SHARE: tl.constexpr, H: tl.constexpr,
                            W: tl.constexpr,
                            OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
                            R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
                            SPLIT: tl.constexpr, PRECISION: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
                            BM: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr):
    client = (tl.program_id(1) // SPLIT).to(tl.int64)
    part = tl.program_id(1) % SPLIT
    k = (tl.program_id(0) // tl.cdiv(O, BN)) * BK + tl.arange(0, BK)
    columns = (tl.program_id(0) % tl.cdiv(O, BN)) * BN + tl.arange(0, BN)
    tap_h = tl.minimum(k // (C * S), 31)
    tap_w = k // C % S
    offset = (tap_h * W + tap_w) * C + k % C
    x += client * IMAGES * H * W * C
    dy += client * IMAGES * OH * OW * O
    # BM pixels at a time: TH rows of TW columns of some images. What a pixel's place within such a tile decides is
    # worked out once; a tile's own place is a few numbers for the whole program.
    pixel = tl.arange(0, BM)
    image = pixel // (TH * TW)
    row = pixel // TW % TH
    column = pixel % TW
    spot_x = ((image * H + row * STRIDE_H) * W + column * STRIDE_W) * C
    spot_y = ((image * OH + row) * OW + column) * O
    top = row * STRIDE_H - PAD_H
    left = column * STRIDE_W - PAD_W
    total = tl.zeros((BK, BN), tl.float32)
    for number in range(SHARE):
        tile = part * SHARE + number
        first_w = tile % tl.cdiv(OW, TW) * TW
        first_h = tile // tl.cdiv(OW, TW) % tl.cdiv(OH, TH) * TH
        first = tile // (tl.cdiv(OW, TW) * tl.cdiv(OH, TH)) * (BM // (TH * TW))
        real = (image < IMAGES - first) & (row < OH - first_h) & (column < OW - first_w)
        seen_h = tl.where(real, _inside(top + first_h * STRIDE_H, H, R), 0)
        seen_w = _inside(left + first_w * STRIDE_W, W, S)
        inside = ((seen_h[:, None] >> tap_h[None, :]) & (seen_w[:, None] >> tap_w[None, :]) & 1) != 0
        begin = spot_x + ((first * H + first_h * STRIDE_H - PAD_H) * W + first_w * STRIDE_W - PAD_W) * C
        a = tl.load(x + begin[:, None] + offset[None, :], mask=inside, other=0.0)
        b = tl.load(dy + (spot_y + ((first * OH + first_h) * OW + first_w) * O)[:, None] + columns[None, :],
                    mask=real[:, None] & (columns < O)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
    base = part.to(tl.int64) * CLIENTS + client
    tl.store(dw + base * R * S * C * O + k[:, None] * O + columns[None, :], total.to(dw.dtype.element_ty),
             mask=(k < R * S * C)[:, None] & (columns < O)[None, :])


def _power(n: int, low: int, high: int) -> int:
    """The smallest power of two that holds n, within bounds."""
    return max(low, min(high, triton.next_power_of_2(n)))


def _tiling(images: int, height: int, width: int, size: int) -> tuple[int, int, int]:
    """How to cut images into tiles of `size` pixels, of which the fewest lie outside: (tiles, rows, columns of a tile).

    Example:
        >>> _tiling(100, 12, 12, 64)  # 4 images x 4 x 4 pixels
        (225, 4, 4)
    """
    powers = [1 << i for i in range(size.bit_length())]
    return min(((-(-images // (size // (rows * columns))) * -(-height // rows) * -(-width // columns), rows, columns)
                for rows in powers for columns in powers if rows * columns <= size),
               key=lambda tiling: (tiling[0], -tiling[2], -tiling[1]))


def _multiply(x: Tensor, w: Tensor, bias: Tensor | None, stride: list[int], padding: list[int],
              flipped: bool = False) -> Tensor:
    """x [N, C, H, W] channels last, w [K, R, S, C, O] -> [N, O, H', W'] channels last; `flipped`
    exchanges C and O, last tap first."""
    n, channels, height, width = x.shape
    clients, *taps = w.shape[:3]
    outputs = w.shape[3] if flipped else w.shape[4]
    out_h, out_w = _out_size(height, width, taps, stride, padding)
    y = torch.empty((n, out_h, out_w, outputs), device=x.device, dtype=x.dtype).permute(0, 3, 1, 2)
    rows = n // clients * out_h * out_w
    block_n = _power(outputs, 16, 128)
    block_m, block_k, warps = _product_tile(x, taps[0] * taps[1] * channels, block_n)
    grid = (triton.cdiv(rows, block_m), clients, triton.cdiv(outputs, block_n))
    _product_kernel[grid](x, w, bias if bias is not None else w, y, rows, padding[0], padding[1],
                          height, width, out_h, out_w, channels, outputs, *taps, *stride, flipped, bias is not None,
                          _precision(x), block_m, block_n, block_k, num_warps=warps, num_stages=3)
    return y


def _product_tile(x: Tensor, inner: int, block_n: int) -> tuple[int, int, int]:
    """(pixels, inner values, warps) of a tile, as measured on an H200 at the sizes of the papers' networks."""
    channels, wide = x.shape[1], x.dtype == torch.float32  # fp32 takes twice the shared memory of bf16
    if wide and block_n <= 64:
        return (256, 16, 4) if _precision(x) == "tf32" else (128, 32 if channels >= 64 else 16, 4)
    return (64 if wide else 128, 64 if channels >= 64 else 16 if inner < 128 else 32,
            8 if block_n == 128 and not wide else 4)


def _gradient_tile(x: Tensor, inner: int, outputs: int) -> tuple[int, int, int, int]:
    """(inner values, outputs, pixels, warps) of a tile of the weight gradient."""
    if x.dtype == torch.float32:
        # The matrix units that four warps share take fp32 only along the sum, across which it lies
        # here: two warps use the others.
        return _power(inner, 32, 64), _power(outputs, 16, 64), 32, 2
    block_n = _power(outputs, 16, 128)
    return _power(inner, 32, 128), block_n, 64, 8 if 16 < x.shape[1] < 64 <= block_n else 4


def _split(programs: int, channels: int, rows: int) -> int:
    """Into how many parts the sum over pixels is cut: enough to fill the chip, few enough for small partial sums."""
    return max(1, min(64, triton.cdiv(512 if channels >= 64 else 1024, programs), rows // 512))


def _out_size(height: int, width: int, taps: Sequence[int], stride: list[int], padding: list[int]) -> tuple[int, int]:
    return (height + 2 * padding[0] - taps[0]) // stride[0] + 1, (width + 2 * padding[1] - taps[1]) // stride[1] + 1


def _precision(x: Tensor) -> str:
    """fp32 goes through the matrix units as three products of 10-bit pieces: exact to about 1e-6, and faster."""
    return "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "tf32x3"


@opaque("client_conv2d")
def implicit_gemm_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int]) -> Tensor:
    """x [K * B, C, H, W] channels last and weight [K, R, S, C, O] of one type; bias [K, O] of any."""
    return _multiply(x, weight, bias, stride, padding)


@implicit_gemm_conv.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int]) -> Tensor:
    n, _, height, width = x.shape
    size = _out_size(height, width, weight.shape[1:3], stride, padding)
    return x.new_empty((n, *size, weight.shape[4])).permute(0, 3, 1, 2)


@opaque("client_conv2d_backward")
def _gradients(x: Tensor, weight: Tensor, dy: Tensor, stride: list[int], padding: list[int],
               want_dx: bool) -> tuple[Tensor, Tensor]:
    clients, taps_h, taps_w, channels, outputs = weight.shape
    dy = dy.contiguous(memory_format=torch.channels_last)
    n, _, height, width = x.shape
    out_h, out_w = dy.shape[2:]
    rows = n // clients * out_h * out_w
    inner = taps_h * taps_w * channels
    block_k, block_n, block_m, warps = _gradient_tile(x, inner, outputs)
    tiles = triton.cdiv(inner, block_k) * triton.cdiv(outputs, block_n)
    split = _split(clients * tiles, channels, rows)
    cells, tile_h, tile_w = _tiling(n // clients, out_h, out_w, block_m)
    dw = torch.empty((split, *weight.shape), device=x.device, dtype=torch.float32 if split > 1 else weight.dtype)
    _weight_gradient_kernel[(tiles, clients * split)](
        x, dy, dw, n // clients, padding[0], padding[1], clients, triton.cdiv(cells, split), height, width, out_h,
        out_w, channels, outputs, taps_h, taps_w, *stride, split, _precision(x), block_k, block_n, block_m, tile_h,
        tile_w, num_warps=warps, num_stages=3)
    dweight = dw.sum(dim=0).to(weight.dtype) if split > 1 else dw[0]
    if want_dx:
        if max(stride) > 1:
            size = _out_size(height, width, (taps_h, taps_w), [1, 1], padding)
            spread = dy.new_zeros((n, *size, outputs)).permute(0, 3, 1, 2)
            spread[:, :, :: stride[0], :: stride[1]] = dy
            dy = spread
        dx = _multiply(dy, weight, None, [1, 1], [taps_h - 1 - padding[0], taps_w - 1 - padding[1]], flipped=True)
    else:
        dx = x.new_empty(0)
    return dx, dweight


@_gradients.register_fake
def _(x: Tensor, weight: Tensor, dy: Tensor, stride: list[int], padding: list[int],
      want_dx: bool) -> tuple[Tensor, Tensor]:
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
