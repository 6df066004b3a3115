"""Local response normalisation: as kernels, one reading of the activations forward, one backward.

With a window of n channels around each, s_c = k + (alpha / n) sum_j a_j^2 and

    b_c  = a_c s_c^-beta
    da_j = db_j s_j^-beta - (2 alpha beta / n) a_j sum over c whose window holds j of db_c a_c s_c^(-beta - 1)

Both sums over windows are products with a band matrix. As library operations they take a dozen passes, and a third of
the time of hsu2019's network. A rectifier in front costs nothing: a is then what it lets pass.

References:
    Krizhevsky, Sutskever and Hinton 2012, section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.core.kernel import has_kernels, jit, tl, triton
from askew.core.opaque import opaque
from askew.engine.tuning import LRN_TILES

MOST_CHANNELS = 128  # all channels of a pixel lie in one tile, and the band matrix in shared memory


def local_response_norm(x: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool = False,
                        otherwise: Callable[..., Tensor] = F.local_response_norm) -> Tensor:
    """`F.local_response_norm`, with `rectify` of `F.relu(x)`.

    Args:
        otherwise: what computes it where there are no kernels.
    """
    if has_kernels(x) and x.ndim == 4 and x.shape[1] <= MOST_CHANNELS:
        return _normalise(x.contiguous(memory_format=torch.channels_last), size, alpha, beta, k, rectify)
    return otherwise(F.relu(x) if rectify else x, size, alpha, beta, k)


@jit
def _band(BEFORE: tl.constexpr, AFTER: tl.constexpr, BC: tl.constexpr):
    """[j, c]: whether c's window holds j."""
    apart = tl.arange(0, BC)[:, None] - tl.arange(0, BC)[None, :]
    return ((apart >= -BEFORE) & (apart <= AFTER)).to(tl.float32)


@jit
def _sums(v, band, PRECISION: tl.constexpr):
    if PRECISION == "bf16":  # no coarser than what the result is rounded to
        return tl.dot(v.to(tl.bfloat16), band.to(tl.bfloat16))
    else:
        return tl.dot(v, band, input_precision=PRECISION)


@jit
def _places(number, N, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """Where a tile of BM pixels begins, where its values lie within it (short numbers: long ones fill
    the registers), which are real."""
    first = number.to(tl.int64) * BM
    rows = tl.arange(0, BM)
    c = tl.arange(0, BC)
    return first * C, rows[:, None] * C + c[None, :], (rows < N - first)[:, None] & (c < C)[None, :]


@jit
def _values(x, at, real, RECTIFY: tl.constexpr):
    a = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
    if RECTIFY:
        a = tl.where(a <= 0.0, 0.0, a)
    return a


@jit
def _forward_kernel(x, y, N, C: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, SCALE, BETA, K,
                    RECTIFY: tl.constexpr, PRECISION: tl.constexpr, TILES: tl.constexpr, BM: tl.constexpr,
                    BC: tl.constexpr):
    near = _band(BEFORE, AFTER, BC)
    for i in range(TILES):
        begin, at, real = _places(tl.program_id(0) * TILES + i, N, C, BM, BC)
        a = _values(x + begin, at, real, RECTIFY)
        s = K + SCALE * _sums(a * a, near, PRECISION)
        tl.store(y + begin + at, (a * tl.exp2(-BETA * tl.log2(s))).to(y.dtype.element_ty), mask=real)


@jit
def _backward_kernel(x, dy, dx, N, C: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, SCALE, BETA, K,
                     RECTIFY: tl.constexpr, PRECISION: tl.constexpr, TILES: tl.constexpr, BM: tl.constexpr,
                     BC: tl.constexpr):
    near = _band(BEFORE, AFTER, BC)
    back = _band(AFTER, BEFORE, BC)  # [c, j]
    for i in range(TILES):
        begin, at, real = _places(tl.program_id(0) * TILES + i, N, C, BM, BC)
        a = _values(x + begin, at, real, RECTIFY)
        g = tl.load(dy + begin + at, mask=real, other=0.0).to(tl.float32)
        length = tl.log2(K + SCALE * _sums(a * a, near, PRECISION))
        spread = _sums(g * a * tl.exp2(-(BETA + 1.0) * length), back, PRECISION)
        result = g * tl.exp2(-BETA * length) - 2.0 * SCALE * BETA * a * spread
        if RECTIFY:
            result = tl.where(a <= 0.0, 0.0, result)
        tl.store(dx + begin + at, result.to(dx.dtype.element_ty), mask=real)


def _launch(kernel: Any, tensors: list[Tensor], size: int, alpha: float, beta: float, k: float, rectify: bool) -> None:
    x = tensors[0]
    channels = x.shape[1]
    pixels = x.numel() // channels
    wide = max(16, triton.next_power_of_2(channels))
    block = 64 if wide <= 64 else 32
    precision = "bf16" if x.dtype == torch.bfloat16 else "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    # torch pads size // 2 channels in front and (size - 1) // 2 behind.
    grid = (triton.cdiv(pixels, block * LRN_TILES),)
    kernel[grid](*tensors, pixels, channels, size // 2, (size - 1) // 2, alpha / size, beta, k,
                 rectify, precision, LRN_TILES, block, wide, num_warps=4, num_stages=len(tensors))


@opaque("local_response_norm")
def _normalise(x: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool) -> Tensor:
    """Of channels-last images, in the type of x."""
    y = torch.empty_like(x)
    _launch(_forward_kernel, [x, y], size, alpha, beta, k, rectify)
    return y


@_normalise.register_fake
def _(x: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool) -> Tensor:
    return torch.empty_like(x)


@opaque("local_response_norm_backward")
def _gradient(x: Tensor, dy: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool) -> Tensor:
    dx = torch.empty_like(x)
    _launch(_backward_kernel, [x, dy.to(x.dtype).contiguous(memory_format=torch.channels_last), dx],
            size, alpha, beta, k, rectify)
    return dx


@_gradient.register_fake
def _(x: Tensor, dy: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool) -> Tensor:
    return torch.empty_like(x)


def _back(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    dx = torch.ops.askew.local_response_norm_backward(ctx.saved_tensors[0], dy, *ctx.numbers)
    return dx, None, None, None, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *ctx.numbers = inputs
    ctx.save_for_backward(x)


_normalise.register_autograd(_back, setup_context=_setup)
