"""Triton kernels of normalisation: the sums that it takes over each set of pixels, and what it makes of them.

A set is a client's batch (BatchNorm) or one example (GroupNorm). In channels-last order it is a matrix of B * H * W pixels by
C channels; its columns are summed in parts by many programs, and the parts are added up in a fixed order. Compilers give
such a long and narrow sum to too few programs when there are only K * C of them. Normalising itself is left to the
compiler, which joins it with what comes before and after; without one, a kernel does in one pass what would be five.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from askew.core.opaque import opaque

_MOST_PARTS = 16  # programs that share the pixels of a set
_PIXELS = 256  # for each of them, at least


@triton.jit
def _moments(x, counts, sums, M, PIXELS, SHARE: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """Sums of x - x_0 and of its square, x_0 the client's first pixel: no digits are lost to a large mean."""
    client = tl.program_id(0).to(tl.int64)
    real_rows = tl.load(counts + client) * PIXELS  # padding comes last
    part = tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += client * M * C
    first = tl.load(x + c, mask=c < C, other=0.0).to(tl.float32)
    plain = tl.zeros((BM, BC), tl.float32)
    square = tl.zeros((BM, BC), tl.float32)
    for low in range(0, SHARE, BM):
        rows = part * SHARE + low + tl.arange(0, BM)
        real = ((rows < real_rows) & (low + tl.arange(0, BM) < SHARE))[:, None] & (c < C)[None, :]
        d = tl.load(x + rows[:, None] * C + c[None, :], mask=real, other=0.0).to(tl.float32)
        d = tl.where(real, d - first[None, :], 0.0)
        plain += d
        square += d * d
    at = sums + (client * PARTS + part) * 2 * C + c
    tl.store(at, tl.sum(plain, axis=0), mask=c < C)
    tl.store(at + C, tl.sum(square, axis=0), mask=c < C)


@triton.jit
def _gradient_sums(x, dy, mean, inverse, sums, M, PIXELS, SHARE: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr,
                   BM: tl.constexpr, BC: tl.constexpr):
    """Sums of dy and of dy (x - mean) inverse."""
    client = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += client * M * C
    dy += client * M * C
    centre = tl.load(mean + client * C + c, mask=c < C, other=0.0)
    plain = tl.zeros((BM, BC), tl.float32)
    normal = tl.zeros((BM, BC), tl.float32)
    for low in range(0, SHARE, BM):
        rows = part * SHARE + low + tl.arange(0, BM)
        real = ((rows < M) & (low + tl.arange(0, BM) < SHARE))[:, None] & (c < C)[None, :]
        at = rows[:, None] * C + c[None, :]
        g = tl.load(dy + at, mask=real, other=0.0).to(tl.float32)
        plain += g
        normal += g * (tl.load(x + at, mask=real, other=0.0).to(tl.float32) - centre[None, :])
    at = sums + (client * PARTS + part) * 2 * C + c
    tl.store(at, tl.sum(plain, axis=0), mask=c < C)
    tl.store(at + C, tl.sum(normal, axis=0) * tl.load(inverse + client * C + c, mask=c < C, other=0.0), mask=c < C)


@triton.jit
def _tile(counts, M, PIXELS, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """Of a tile of a set's pixels: the set's first channel, the channels, where the values lie, which exist, which pixels are real."""
    group = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    at = group * M * C + rows[:, None] * C + c[None, :]
    return group * C, c, at, (rows < M)[:, None] & (c < C)[None, :], (rows < tl.load(counts + group) * PIXELS)[:, None]


@triton.jit
def _of_channels(v, first, c, C: tl.constexpr):
    """One number for each channel of a set."""
    return tl.load(v + first + c, mask=c < C, other=0.0)[None, :]


@triton.jit
def _scaled(x, mean, scale, bias, counts, y, M, PIXELS, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """y = (x - mean) scale + bias, and bias alone for padding: nothing that it holds can grow beyond bounds."""
    first, c, at, inside, real = _tile(counts, M, PIXELS, C, BM, BC)
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - _of_channels(mean, first, c, C)
    v = tl.where(real, v * _of_channels(scale, first, c, C), 0.0) + _of_channels(bias, first, c, C)
    tl.store(y + at, v.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _scaled_back(x, dy, mean, inverse, scale, plain, normal, counts, dx, M, PIXELS, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """dx = scale dy - plain - normal (x - mean) inverse, and 0 for padding."""
    first, c, at, inside, real = _tile(counts, M, PIXELS, C, BM, BC)
    v = (tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - _of_channels(mean, first, c, C)) * _of_channels(inverse, first, c, C)
    g = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32) * _of_channels(scale, first, c, C)
    g = g - _of_channels(plain, first, c, C) - _of_channels(normal, first, c, C) * v
    tl.store(dx + at, tl.where(real, g, 0.0).to(dx.dtype.element_ty), mask=inside)


def _parts(x: Tensor) -> int:
    """Into how many the pixels of a set are cut."""
    return max(1, min(_MOST_PARTS, x.shape[1] * x.shape[3] * x.shape[4] // _PIXELS))


def _launch(kernel: Any, x: Tensor, *others: Tensor) -> Tensor:
    """x [K, B, C, H, W] -> [K, parts, 2, C]."""
    sets, batch, channels, height, width = x.shape
    parts = _parts(x)
    sums = torch.empty((sets, parts, 2, channels), device=x.device, dtype=torch.float32)
    pixels = batch * height * width
    wide = min(128, max(16, triton.next_power_of_2(channels)))
    kernel[(sets, parts, triton.cdiv(channels, wide))](
        _in_order(x), *others, sums, pixels, height * width, triton.cdiv(pixels, parts), channels, parts, 4096 // wide, wide, num_warps=4)
    return sums


def _apply(kernel: Any, x: Tensor, *others: Tensor) -> Tensor:
    """Another [K, B, C, H, W] in the order of x."""
    sets, batch, channels, height, width = x.shape
    out = torch.empty((sets, batch, height, width, channels), device=x.device, dtype=x.dtype)
    pixels = batch * height * width
    wide = min(128, max(16, triton.next_power_of_2(channels)))
    rows = 4096 // wide
    kernel[(sets, triton.cdiv(pixels, rows), triton.cdiv(channels, wide))](
        _in_order(x), *others, out, pixels, height * width, channels, rows, wide, num_warps=4)
    return out.permute(0, 1, 4, 2, 3)


def _in_order(x: Tensor) -> Tensor:
    """Pixels before channels; no copy where the images are channels last already."""
    return x.permute(0, 1, 3, 4, 2).contiguous()


@opaque("client_moments")
def _moments_of(x: Tensor, real: Tensor) -> Tensor:
    return _launch(_moments, x, real.contiguous())


@_moments_of.register_fake
def _(x: Tensor, real: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _parts(x), 2, x.shape[2]), dtype=torch.float32)


@opaque("client_gradient_sums")
def _gradient_sums_of(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return _launch(_gradient_sums, x, _in_order(dy), mean.contiguous(), inverse.contiguous())


@_gradient_sums_of.register_fake
def _(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _parts(x), 2, x.shape[2]), dtype=torch.float32)


def var_mean(x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each set's channels, [K, C] each.

    Args:
        x: [K, B, C, H, W].
        real: [K] examples of each set that count, the first ones.
    """
    values = (real.clamp_min(1) * (x.shape[3] * x.shape[4]))[:, None, None]
    plain, square = (_moments_of(x, real).sum(dim=1) / values).unbind(1)
    return (square - plain * plain).clamp_min(0), x[:, 0, :, 0, 0].float() + plain


def gradient_sums(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of dy and of dy (x - mean) inverse over each set, [K, C] each; dy is 0 for padding."""
    plain, normal = _gradient_sums_of(x, dy, mean, inverse).sum(dim=1).unbind(1)
    return plain, normal


def scaled(x: Tensor, mean: Tensor, scale: Tensor, bias: Tensor, real: Tensor) -> Tensor:
    """(x - mean) scale + bias for real examples, bias for padding; mean, scale and bias [K, C] in fp32."""
    return _apply(_scaled, x, *(v.contiguous() for v in (mean, scale, bias, real)))


def scaled_back(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor, scale: Tensor, plain: Tensor, normal: Tensor, real: Tensor) -> Tensor:
    """scale dy - plain - normal (x - mean) inverse for real examples, 0 for padding."""
    return _apply(_scaled_back, x, _in_order(dy), *(v.contiguous() for v in (mean, inverse, scale, plain, normal, real)))
