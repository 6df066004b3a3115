"""Normalisation of each client's batch (BatchNorm) or of each example (GroupNorm) by itself.

Both subtract a mean and divide by a standard deviation, [S, C] of S sets of pixels, then scale and shift
with the client's own weights. They differ in what a set is: a client's batch, or an example, whose
channels are then joined to groups.

In channels-last order a set is a matrix of B * H * W pixels by C channels; the kernels sum its columns in parts, by
many programs, and the parts are added up in a fixed order. Compilers give such a long and narrow sum to too few
programs when there are only K * C of them. Normalising itself is left to the compiler, which joins it with what comes
before and after; without one, a kernel does in one pass what would be five.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.core.kernel import has_kernels, jit, tl, triton
from askew.core.opaque import opaque
from askew.engine.tuning import NORM_PARTS, NORM_PIXELS, NORM_TILE


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float,
               real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Each client's batch normalised by itself.

    Args:
        x: [K, B, C, ...].
        weight, bias: [K, C].
        real: [K] examples of each client that count, the first ones; None: all.

    Returns:
        the result in the type of x; mean and biased variance [K, C] of what was normalised, without gradients.
    """
    result, mean, var = _BatchNorm.apply(x, weight, bias, eps, real)
    return result, mean, var


def group_norm(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
    """`F.group_norm` of K clients' examples [K * B, C, ...] end to end, with weight and bias [K, C]."""
    if has_kernels(x) and x.ndim == 4:
        return _GroupNorm.apply(x, weight, bias, groups, eps)
    clients = len(weight)
    shape = (clients, 1, -1, *[1] * (x.ndim - 2))
    y = F.group_norm(x, groups, eps=eps).unflatten(0, (clients, -1))
    return (y * weight.view(shape) + bias.view(shape)).flatten(0, 1)


class _BatchNorm(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over each client's real examples; x [K, B, C, ...], statistics in fp32.

    Written out so that padding counts for nothing and so that a GPU takes the sums with kernels of our own.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float,
                real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        across, shape = _across(x), per_channel(x)
        wide = _converted(x)
        if _has_kernels(x):
            var, mean = var_mean_in_triton(x, _all_of(x) if real is None else real)
        else:
            values = _values(x, real)
            mean = _kept(wide, real).sum(dim=across) / values
            var = _kept((wide - mean.view(shape)).square(), real).sum(dim=across) / values
        inverse = torch.rsqrt(var + eps)
        ctx.save_for_backward(x, weight, mean, inverse, *([] if real is None else [real]))
        ctx.mark_non_differentiable(mean, var)
        return _scaled(x, wide, mean, inverse * weight, bias, real), mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight, mean, inverse, *rest = ctx.saved_tensors
        real = rest[0] if rest else None
        # What comes back from padding is 0 already: from the loss, and from every BatchNorm behind this one.
        dbias, dweight = _gradient_sums(x, dy, mean, inverse)
        scale = inverse * weight
        share = scale / _values(x, real)
        dx = _scaled_back(x, dy, mean, inverse, scale, dbias * share, dweight * share, real)
        return dx, dweight.to(weight.dtype), dbias.to(weight.dtype), None, None


class _GroupNorm(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over a group's channels in each example; x [K * B, C, H, W], w [K, C]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
        x = x.unsqueeze(1)  # a set of one example
        wide = _converted(x)
        var, mean = var_mean_in_triton(x, _all_of(x))  # [K * B, C]
        middle = _over_group(mean, groups)
        inverse = torch.rsqrt(_over_group(var + (mean - middle).square(), groups) + eps)
        ctx.save_for_backward(x, weight, middle, inverse)
        ctx.groups = groups
        each = len(x) // len(weight)
        return _scaled(x, wide, middle, inverse * weight.repeat_interleave(each, 0), bias.repeat_interleave(each, 0),
                       None).squeeze(1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight, mean, inverse = ctx.saved_tensors
        dy = dy.unsqueeze(1)
        dbias, dweight = _gradient_sums(x, dy, mean, inverse)  # of each example
        scale = weight.repeat_interleave(len(x) // len(weight), 0)
        share = inverse / (x.shape[3] * x.shape[4])  # means over a group are means over its channels' means
        dx = _scaled_back(x, dy, mean, inverse, inverse * scale, _over_group(scale * dbias, ctx.groups) * share,
                          _over_group(scale * dweight, ctx.groups) * share, None)
        clients = len(weight)
        return (dx.squeeze(1), dweight.unflatten(0, (clients, -1)).sum(dim=1),
                dbias.unflatten(0, (clients, -1)).sum(dim=1), None, None)


def _over_group(v: Tensor, groups: int) -> Tensor:
    """[N, C] -> the mean over each group of channels, in the place of each of them."""
    each = v.unflatten(1, (groups, -1))
    return each.mean(dim=2, keepdim=True).expand_as(each).flatten(1)


def _has_kernels(x: Tensor) -> bool:
    return has_kernels(x) and x.ndim == 5


def _gradient_sums(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    if _has_kernels(x):
        return gradient_sums_in_triton(x, dy, mean, inverse)
    across, shape = _across(x), per_channel(x)
    wide = dy.to(_wide(x))
    return wide.sum(dim=across), (wide * ((x.to(_wide(x)) - mean.view(shape)) * inverse.view(shape))).sum(dim=across)


def _converted(x: Tensor) -> Tensor:
    """x in at least fp32, where `_scaled` reads it so; to be called before the sums over x are taken.

    torch's compiler never computes again, for the backward pass, what is made of a tensor only after an operation that
    it cannot join (its rule `ban_recompute_used_far_apart`). Converted behind the sums, x would therefore be kept in
    fp32 beside the bf16 that is kept anyway, three times the memory traffic.
    """
    return x if _normalised_by_kernel(x) else _as(x, _wide(x))


def _normalised_by_kernel(x: Tensor) -> bool:
    """Without a compiler, which would join this with what comes before and after."""
    return _has_kernels(x) and not torch.compiler.is_compiling()


def _scaled(x: Tensor, wide: Tensor, mean: Tensor, scale: Tensor, bias: Tensor, real: Tensor | None) -> Tensor:
    """(x - mean) scale + bias, and bias for padding: what it held, be it infinite, goes no further."""
    if _normalised_by_kernel(x):
        return scaled_in_triton(x, mean, scale, bias, _all_of(x) if real is None else real)
    shape = per_channel(x)
    normal = (wide - mean.view(shape)) * scale.view(shape)
    return _as(_kept(normal, real) + bias.view(shape), x.dtype)


def _scaled_back(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor, scale: Tensor, plain: Tensor, normal: Tensor,
                 real: Tensor | None) -> Tensor:
    """scale dy - plain - normal (x - mean) inverse, and 0 for padding."""
    if _normalised_by_kernel(x):
        return scaled_back_in_triton(x, dy, mean, inverse, scale, plain, normal, _all_of(x) if real is None else real)
    shape, wide = per_channel(x), _wide(x)
    normalised = (x.to(wide) - mean.view(shape)) * inverse.view(shape)
    dx = dy.to(wide) * scale.view(shape) - plain.view(shape) - normalised * normal.view(shape)
    return _kept(dx, real).to(x.dtype)


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Not `x.to`, which returns x itself where there is nothing to do: torch 2.11 compiles a function whose forward
    does that to one without gradients (https://github.com/pytorch/pytorch/issues/180642)."""
    return x if x.dtype == dtype else x.to(dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _all_of(x: Tensor) -> Tensor:
    """[K]: that all examples are real."""
    return torch.full((len(x),), x.shape[1], device=x.device)


def _kept(x: Tensor, real: Tensor | None) -> Tensor:
    """x [K, B, ...] with 0 in the place of padding."""
    if real is None:
        return x
    mask = torch.arange(x.shape[1], device=x.device) < real[:, None]
    return torch.where(mask.view(*mask.shape, *[1] * (x.ndim - 2)), x, 0.0)


def _values(x: Tensor, real: Tensor | None) -> Tensor | int:
    """Values that a channel's statistics are of, [K, 1] where that differs."""
    if real is None:
        return x[0].numel() // x.shape[2]
    return (real.clamp_min(1) * (x[0, 0].numel() // x.shape[2]))[:, None].to(_wide(x))


def _across(x: Tensor) -> list[int]:
    """The axes of a set of pixels."""
    return [d for d in range(1, x.ndim) if d != 2]


def per_channel(x: Tensor) -> tuple[int, ...]:
    """The shape in which [K, C] broadcasts against x."""
    return (x.shape[0], 1, x.shape[2], *[1] * (x.ndim - 3))


@jit
def _moments_kernel(x, counts, sums, M, PIXELS, SHARE: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr,
                    BM: tl.constexpr, BC: tl.constexpr):
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


@jit
def _gradient_sums_kernel(x, dy, mean, inverse, sums, M, PIXELS, SHARE: tl.constexpr, C: tl.constexpr,
                          PARTS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
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


@jit
def _tile(counts, M, PIXELS, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """Of a tile of a set's pixels: the set's first channel, the channels, where the values lie, which
    exist, which pixels are real."""
    group = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    at = group * M * C + rows[:, None] * C + c[None, :]
    return group * C, c, at, (rows < M)[:, None] & (c < C)[None, :], (rows < tl.load(counts + group) * PIXELS)[:, None]


@jit
def _of_channels(v, first, c, C: tl.constexpr):
    """One number for each channel of a set."""
    return tl.load(v + first + c, mask=c < C, other=0.0)[None, :]


@jit
def _scaled_kernel(x, mean, scale, bias, counts, y, M, PIXELS, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """y = (x - mean) scale + bias, and bias alone for padding: nothing that it holds can grow beyond bounds."""
    first, c, at, inside, real = _tile(counts, M, PIXELS, C, BM, BC)
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - _of_channels(mean, first, c, C)
    v = tl.where(real, v * _of_channels(scale, first, c, C), 0.0) + _of_channels(bias, first, c, C)
    tl.store(y + at, v.to(y.dtype.element_ty), mask=inside)


@jit
def _scaled_back_kernel(x, dy, mean, inverse, scale, plain, normal, counts, dx, M, PIXELS, C: tl.constexpr,
                        BM: tl.constexpr, BC: tl.constexpr):
    """dx = scale dy - plain - normal (x - mean) inverse, and 0 for padding."""
    first, c, at, inside, real = _tile(counts, M, PIXELS, C, BM, BC)
    v = ((tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - _of_channels(mean, first, c, C))
         * _of_channels(inverse, first, c, C))
    g = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32) * _of_channels(scale, first, c, C)
    g = g - _of_channels(plain, first, c, C) - _of_channels(normal, first, c, C) * v
    tl.store(dx + at, tl.where(real, g, 0.0).to(dx.dtype.element_ty), mask=inside)


def _parts(x: Tensor) -> int:
    """Into how many the pixels of a set are cut."""
    return max(1, min(NORM_PARTS, x.shape[1] * x.shape[3] * x.shape[4] // NORM_PIXELS))


def _launch(kernel: Any, x: Tensor, *others: Tensor) -> Tensor:
    """x [K, B, C, H, W] -> [K, parts, 2, C]."""
    sets, batch, channels, height, width = x.shape
    parts = _parts(x)
    sums = torch.empty((sets, parts, 2, channels), device=x.device, dtype=torch.float32)
    pixels = batch * height * width
    wide = min(128, max(16, triton.next_power_of_2(channels)))
    kernel[(sets, parts, triton.cdiv(channels, wide))](
        _in_order(x), *others, sums, pixels, height * width, triton.cdiv(pixels, parts), channels, parts,
        NORM_TILE // wide, wide, num_warps=4)
    return sums


def _apply(kernel: Any, x: Tensor, *others: Tensor) -> Tensor:
    """Another [K, B, C, H, W] in the order of x."""
    sets, batch, channels, height, width = x.shape
    out = torch.empty((sets, batch, height, width, channels), device=x.device, dtype=x.dtype)
    pixels = batch * height * width
    wide = min(128, max(16, triton.next_power_of_2(channels)))
    rows = NORM_TILE // wide
    kernel[(sets, triton.cdiv(pixels, rows), triton.cdiv(channels, wide))](
        _in_order(x), *others, out, pixels, height * width, channels, rows, wide, num_warps=4)
    return out.permute(0, 1, 4, 2, 3)


def _in_order(x: Tensor) -> Tensor:
    """Pixels before channels; no copy where the images are channels last already."""
    return x.permute(0, 1, 3, 4, 2).contiguous()


@opaque("client_moments")
def _moments_of(x: Tensor, real: Tensor) -> Tensor:
    return _launch(_moments_kernel, x, real.contiguous())


@_moments_of.register_fake
def _(x: Tensor, real: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _parts(x), 2, x.shape[2]), dtype=torch.float32)


@opaque("client_gradient_sums")
def _gradient_sums_of(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return _launch(_gradient_sums_kernel, x, _in_order(dy), mean.contiguous(), inverse.contiguous())


@_gradient_sums_of.register_fake
def _(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], _parts(x), 2, x.shape[2]), dtype=torch.float32)


def var_mean_in_triton(x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each set's channels, [K, C] each.

    Args:
        x: [K, B, C, H, W].
        real: [K] examples of each set that count, the first ones.
    """
    values = (real.clamp_min(1) * (x.shape[3] * x.shape[4]))[:, None, None]
    plain, square = (_moments_of(x, real).sum(dim=1) / values).unbind(1)
    return (square - plain * plain).clamp_min(0), x[:, 0, :, 0, 0].float() + plain


def gradient_sums_in_triton(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of dy and of dy (x - mean) inverse over each set, [K, C] each; dy is 0 for padding."""
    plain, normal = _gradient_sums_of(x, dy, mean, inverse).sum(dim=1).unbind(1)
    return plain, normal


def scaled_in_triton(x: Tensor, mean: Tensor, scale: Tensor, bias: Tensor, real: Tensor) -> Tensor:
    """(x - mean) scale + bias for real examples, bias for padding; mean, scale and bias [K, C] in fp32."""
    return _apply(_scaled_kernel, x, *(v.contiguous() for v in (mean, scale, bias, real)))


def scaled_back_in_triton(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor, scale: Tensor, plain: Tensor,
                          normal: Tensor, real: Tensor) -> Tensor:
    """scale dy - plain - normal (x - mean) inverse for real examples, 0 for padding."""
    return _apply(_scaled_back_kernel, x, _in_order(dy),
                  *(v.contiguous() for v in (mean, inverse, scale, plain, normal, real)))
