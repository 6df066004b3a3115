"""Layers of normalisation with a client axis: each client's batch, or each example, by itself."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.core.compat import BatchNorm, InstanceNorm
from askew.engine.kernels.norm import batch_norm, group_norm, per_channel


class ClientBatchNorm(nn.Module):
    """`nn.BatchNorm1d` to `3d` with weights and statistics [K, C]: each client's batch by itself.

    Where batches are padded to one size, the buffer `counts` [K] says how many examples of each client are real: only
    they count, and a client with none keeps its statistics. [K, 0] says that all are.
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    counts: Tensor

    def __init__(self, layer: BatchNorm) -> None:
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
            shape = per_channel(each)
            scale = weight * torch.rsqrt(self.running_var + self.eps)
            y = (each - self.running_mean.view(shape)) * scale.view(shape) + bias.view(shape)
            return y.to(x.dtype).flatten(0, 1)
        result, mean, var = batch_norm(each, weight, bias, self.eps, real)
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

    def __init__(self, layer: nn.GroupNorm | InstanceNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.groups = layer.num_groups if isinstance(layer, nn.GroupNorm) else layer.num_features

    def forward(self, x: Tensor) -> Tensor:
        return group_norm(x, self.weight, self.bias, self.groups, self.eps)


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
        y = (F.layer_norm(x, self.shape, eps=self.eps or 0.0) if self.centred
             else F.rms_norm(x, self.shape, eps=self.eps))
        clients = self.weight.shape[0]
        y = y.unflatten(0, (clients, -1))
        shape = (clients, *[1] * (y.ndim - 1 - len(self.shape)), *self.shape)
        y = y * self.weight.view(shape)
        return (y if self.bias is None else y + self.bias.view(shape)).flatten(0, 1).movedim(0, self.axis)
