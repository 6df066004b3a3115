"""Normalisation with a client axis: each client's batch (BatchNorm) or each example (GroupNorm) by itself.

Both subtract a mean and divide by a standard deviation, [S, C] of S sets of pixels, then scale and shift with the client's
own weights. They differ in what a set is: a client's batch, or an example, whose channels are then joined to groups.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.engine.kernels import has_kernels


class ClientBatchNorm(nn.Module):
    """`nn.BatchNorm1d` to `3d` with weights and statistics [K, C]: each client's batch by itself.

    Where batches are padded to one size, the buffer `counts` [K] says how many examples of each client are real: only they
    count, and a client with none keeps its statistics. [K, 0] says that all are.
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    counts: Tensor

    def __init__(self, layer: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.momentum = layer.weight, layer.bias, layer.eps, layer.momentum
        self.channels, self.training = layer.num_features, layer.training
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(layer, name))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        clients, real = self.counts.shape[0], self.counts if self.counts.ndim == 1 else None
        each = x.unflatten(0, (clients, -1))
        kind = torch.promote_types(x.dtype, torch.float32)
        weight, bias = (v if v is not None else x.new_full((clients, self.channels), fill, dtype=kind)
                        for v, fill in ((self.weight, 1.0), (self.bias, 0.0)))
        if not self.training and self.running_mean is not None and self.running_var is not None:
            shape = _across(each)[1]
            scale = weight * torch.rsqrt(self.running_var + self.eps)
            return ((each - self.running_mean.view(shape)) * scale.view(shape) + bias.view(shape)).to(x.dtype).flatten(0, 1)
        result, mean, var = _BatchNormalise.apply(each, weight, bias, self.eps, real)
        if self.running_mean is not None:
            self._track(mean, var, real, each.shape[1], x[0].numel() // self.channels)
        return result.flatten(0, 1)

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, real: Tensor | None, batch: int, pixels: int) -> None:
        """Move the running statistics, by `momentum` or, where it is None, to the mean over all batches so far.

        Args:
            pixels: values of a channel in one example.
        """
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1 if real is None else (real > 0).to(torch.int64))
        share = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked[:, None].clamp_min(1)
        # torch keeps the unbiased variance.
        if real is None:
            values: Tensor | None = None
            var = var * (batch * pixels / max(1, batch * pixels - 1))
        else:
            values = real[:, None] * pixels
            var = var * (values / (values - 1).clamp_min(1))
        for kept, new in ((self.running_mean, mean), (self.running_var, var)):
            moved = kept + (new.to(kept.dtype) - kept) * share
            # Not a step of length 0: who stands idle may have no finite statistics.
            kept.copy_(moved if values is None else torch.where(values > 0, moved, kept))


class ClientGroupNorm(nn.Module):
    """`nn.GroupNorm`, or `nn.InstanceNorm` without running statistics, with weights [K, C]."""

    def __init__(self, layer: nn.GroupNorm | nn.modules.instancenorm._InstanceNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.groups = layer.num_groups if isinstance(layer, nn.GroupNorm) else layer.num_features

    def forward(self, x: Tensor) -> Tensor:
        clients = self.weight.shape[0]
        if has_kernels(x) and x.ndim == 4:
            return _GroupNormalise.apply(x, self.weight, self.bias, self.groups, self.eps)
        shape = (clients, 1, -1, *[1] * (x.ndim - 2))
        y = F.group_norm(x, self.groups, eps=self.eps).unflatten(0, (clients, -1))
        return (y * self.weight.view(shape) + self.bias.view(shape)).flatten(0, 1)


class ClientLayerNorm(nn.Module):
    """`nn.LayerNorm` or `nn.RMSNorm` with weights [K, ...].

    Args:
        axis: on which the examples lie.
    """

    def __init__(self, layer: nn.LayerNorm | nn.RMSNorm, axis: int = 0) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, getattr(layer, "bias", None)
        self.shape, self.eps, self.axis = tuple(layer.normalized_shape), layer.eps, axis
        self.centred = isinstance(layer, nn.LayerNorm)

    def forward(self, x: Tensor) -> Tensor:
        x = x.movedim(self.axis, 0)
        y = F.layer_norm(x, self.shape, eps=self.eps or 0.0) if self.centred else F.rms_norm(x, self.shape, eps=self.eps)
        clients = self.weight.shape[0]
        y = y.unflatten(0, (clients, -1))
        shape = (clients, *[1] * (y.ndim - 1 - len(self.shape)), *self.shape)
        y = y * self.weight.view(shape)
        return (y if self.bias is None else y + self.bias.view(shape)).flatten(0, 1).movedim(0, self.axis)


class _BatchNormalise(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over each client's real examples; x [K, B, C, ...], statistics in fp32.

    Written out so that padding counts for nothing and so that a GPU takes the sums with kernels of our own.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        across, shape = _across(x)
        wide = _converted(x)
        if _has_kernels(x):
            from askew.engine.norm_kernels import var_mean

            var, mean = var_mean(x, _all_of(x) if real is None else real)
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


class _GroupNormalise(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over the channels of a group in each example; x [K * B, C, H, W], w [K, C]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
        from askew.engine.norm_kernels import var_mean

        x = x.unsqueeze(1)  # a set of one example
        wide = _converted(x)
        var, mean = var_mean(x, _all_of(x))  # [K * B, C]
        middle = _over_group(mean, groups)
        inverse = torch.rsqrt(_over_group(var + (mean - middle).square(), groups) + eps)
        ctx.save_for_backward(x, weight, middle, inverse)
        ctx.groups = groups
        each = len(x) // len(weight)
        return _scaled(x, wide, middle, inverse * weight.repeat_interleave(each, 0), bias.repeat_interleave(each, 0), None).squeeze(1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight, mean, inverse = ctx.saved_tensors
        dy = dy.unsqueeze(1)
        dbias, dweight = _gradient_sums(x, dy, mean, inverse)  # of each example
        own = weight.repeat_interleave(len(x) // len(weight), 0)
        share = inverse / (x.shape[3] * x.shape[4])  # means over a group are means over its channels' means
        dx = _scaled_back(x, dy, mean, inverse, inverse * own, _over_group(own * dbias, ctx.groups) * share,
                          _over_group(own * dweight, ctx.groups) * share, None)
        clients = len(weight)
        return dx.squeeze(1), dweight.unflatten(0, (clients, -1)).sum(dim=1), dbias.unflatten(0, (clients, -1)).sum(dim=1), None, None


def _over_group(v: Tensor, groups: int) -> Tensor:
    """[N, C] -> the mean over each group of channels, in the place of each of them."""
    each = v.unflatten(1, (groups, -1))
    return each.mean(dim=2, keepdim=True).expand_as(each).flatten(1)


def _has_kernels(x: Tensor) -> bool:
    return has_kernels(x) and x.ndim == 5


def _gradient_sums(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    if _has_kernels(x):
        from askew.engine.norm_kernels import gradient_sums

        return gradient_sums(x, dy, mean, inverse)
    across, shape = _across(x)
    wide = dy.to(_wide(x))
    return wide.sum(dim=across), (wide * ((x.to(_wide(x)) - mean.view(shape)) * inverse.view(shape))).sum(dim=across)


def _converted(x: Tensor) -> Tensor:
    """x in at least fp32, where `_scaled` reads it so; to be called before the sums over x are taken.

    torch's compiler never computes again, for the backward pass, what is made of a tensor only after an operation that it cannot
    join (its rule `ban_recompute_used_far_apart`). Converted behind the sums, x would therefore be kept in fp32 beside the
    bf16 that is kept anyway, three times the memory traffic.
    """
    return x if _normalised_by_kernel(x) else _as(x, _wide(x))


def _normalised_by_kernel(x: Tensor) -> bool:
    """Without a compiler, which would join this with what comes before and after."""
    return _has_kernels(x) and not torch.compiler.is_compiling()


def _scaled(x: Tensor, wide: Tensor, mean: Tensor, scale: Tensor, bias: Tensor, real: Tensor | None) -> Tensor:
    """(x - mean) scale + bias, and bias for padding: what it held, be it infinite, goes no further."""
    if _normalised_by_kernel(x):
        from askew.engine.norm_kernels import scaled

        return scaled(x, mean, scale, bias, _all_of(x) if real is None else real)
    shape = _across(x)[1]
    normal = (wide - mean.view(shape)) * scale.view(shape)
    return _as(_kept(normal, real) + bias.view(shape), x.dtype)


def _scaled_back(x: Tensor, dy: Tensor, mean: Tensor, inverse: Tensor, scale: Tensor, plain: Tensor, normal: Tensor,
                 real: Tensor | None) -> Tensor:
    """scale dy - plain - normal (x - mean) inverse, and 0 for padding."""
    if _normalised_by_kernel(x):
        from askew.engine.norm_kernels import scaled_back

        return scaled_back(x, dy, mean, inverse, scale, plain, normal, _all_of(x) if real is None else real)
    shape, wide = _across(x)[1], _wide(x)
    there = (x.to(wide) - mean.view(shape)) * inverse.view(shape)
    dx = dy.to(wide) * scale.view(shape) - plain.view(shape) - there * normal.view(shape)
    return _kept(dx, real).to(x.dtype)


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Not `x.to`, which returns x itself where there is nothing to do: torch 2.11 compiles a function whose forward does that to
    one without gradients (https://github.com/pytorch/pytorch/issues/180642)."""
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


def _across(x: Tensor) -> tuple[list[int], tuple[int, ...]]:
    """The axes of a client's batch, and the shape in which [K, C] broadcasts against x."""
    return [d for d in range(1, x.ndim) if d != 2], (x.shape[0], 1, x.shape[2], *[1] * (x.ndim - 3))
