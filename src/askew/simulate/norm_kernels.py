"""Triton kernels of the sums that BatchNorm takes over each client's batch.

A client's channels-last batch is a matrix of B * H * W pixels by C channels; its columns are summed in parts by many
programs, and the parts are added up in a fixed order. Compilers give such a long and narrow sum to too few programs
when there are only K * C of them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_PARTS = 16  # programs that share one client's pixels


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


def _launch(kernel: Any, x: Tensor, *others: Tensor) -> Tensor:
    """x [K, B, C, H, W] -> [K, parts, 2, C]."""
    clients, batch, channels, height, width = x.shape
    sums = torch.empty((clients, _PARTS, 2, channels), device=x.device, dtype=torch.float32)
    pixels = batch * height * width
    wide = min(128, max(16, triton.next_power_of_2(channels)))
    kernel[(clients, _PARTS, triton.cdiv(channels, wide))](
        _in_order(x), *others, sums, pixels, height * width, triton.cdiv(pixels, _PARTS), channels, _PARTS, 4096 // wide, wide, num_warps=4)
    return sums


def _in_order(x: Tensor) -> Tensor:
    """Pixels before channels; no copy where the images are channels last already."""
    return x.permute(0, 1, 3, 4, 2).contiguous()


@torch.library.custom_op("askew::client_moments", mutates_args=())
def _moments_of(x: Tensor, real: Tensor) -> Tensor:
    return _launch(_moments, x, real.contiguous())


@_moments_of.register_fake
def _(x: Tensor, real: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _PARTS, 2, x.shape[2]), dtype=torch.float32)


@torch.library.custom_op("askew::client_gradient_sums", mutates_args=())
def _gradient_sums_of(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return _launch(_gradient_sums, x, _in_order(dy), mean.contiguous(), inverse.contiguous())


@_gradient_sums_of.register_fake
def _(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _PARTS, 2, x.shape[2]), dtype=torch.float32)


def var_mean(x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each client's channels, [K, C] each.

    Args:
        x: [K, B, C, H, W].
        real: [K] examples of each client that count, the first ones.
    """
    values = (real.clamp_min(1) * (x.shape[3] * x.shape[4]))[:, None, None]
    plain, square = (_moments_of(x, real).sum(dim=1) / values).unbind(1)
    return (square - plain * plain).clamp_min(0), x[:, 0, :, 0, 0].float() + plain


def gradient_sums(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of BatchNorm's bias and weight, [K, C] each; dy is 0 for padding."""
    dbias, dweight = _gradient_sums_of(x, dy, mean, inverse).sum(dim=1).unbind(1)
    return dbias, dweight
