"""Layers with a client axis: many copies of one network, each with its own weights, as one network.

The examples of K clients lie behind each other as one batch of K * B, so that everything that acts on single examples
(ReLU, pooling, flattening, adding, local response normalisation) needs no change; only layers that own weights do.
`with_client_axis` copies a network and puts the layers below in the place of those; its weights are then stacked,
[K, ...], and nothing is transposed between layers, unlike under `torch.func.vmap`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from askew.core import rng
from askew.simulate.client_conv import client_conv2d
from askew.simulate.dropout import KeyedDropout


class ClientConv2d(nn.Module):
    """`nn.Conv2d` with weights [K, O, C, R, S]."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation

    def forward(self, x: Tensor) -> Tensor:
        return client_conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class ClientLinear(nn.Module):
    """`nn.Linear` with weights [K, O, I]: a batched product."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        clients, outputs, inputs = self.weight.shape
        rows = x.reshape(clients, -1, inputs)
        weight = self.weight.transpose(1, 2)
        result = torch.bmm(rows, weight) if self.bias is None else torch.baddbmm(self.bias[:, None], rows, weight)
        return result.view(*x.shape[:-1], outputs)


class ClientBatchNorm(nn.Module):
    """`nn.BatchNorm1d` or `2d` in training mode, with weights and statistics [K, C]: each client's batch by itself."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        super().__init__()
        assert layer.momentum is not None, "_has_client_form saw to that"
        self.weight, self.bias, self.eps, self.momentum = layer.weight, layer.bias, layer.eps, layer.momentum
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(layer, name))

    def forward(self, x: Tensor) -> Tensor:
        clients = len(self.weight)
        result, mean, var = _Normalise.apply(x.unflatten(0, (clients, -1)), self.weight, self.bias, self.eps)
        with torch.no_grad():
            count = x.numel() // mean.numel()
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (count / max(count - 1, 1)), self.momentum)  # torch keeps the unbiased variance
            self.num_batches_tracked.add_(1)
        return result.flatten(0, 1)


class _Normalise(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over each client's batch; x [K, B, C, ...], statistics in fp32.

    Written out so that the backward pass sums both of its terms in one reading of its inputs.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        across, shape = _across(x)
        wide = x.float()
        var, mean = torch.var_mean(wide, dim=across, correction=0)
        inverse = torch.rsqrt(var + eps)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.mark_non_differentiable(mean, var)
        result = (wide - mean.view(shape)) * (inverse * weight).view(shape) + bias.view(shape)
        return result.to(x.dtype), mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, mean, inverse = ctx.saved_tensors
        across, shape = _across(x)
        dy = dy.float()
        normal = (x.float() - mean.view(shape)) * inverse.view(shape)
        dbias, dweight = dy.sum(dim=across), (dy * normal).sum(dim=across)
        count = x.numel() // mean.numel()
        dx = (dy - (dbias.view(shape) + normal * dweight.view(shape)) / count) * (inverse * weight).view(shape)
        return dx.to(x.dtype), dweight, dbias, None


def _across(x: Tensor) -> tuple[list[int], tuple[int, ...]]:
    """The axes of a client's batch, and the shape in which [K, C] broadcasts against x."""
    return [d for d in range(1, x.ndim) if d != 2], (x.shape[0], 1, x.shape[2], *[1] * (x.ndim - 3))


class ClientDropout(nn.Module):
    """`KeyedDropout` with one key a client, handed over as a buffer [K]."""

    key: Tensor

    def __init__(self, layer: KeyedDropout, key: Tensor) -> None:
        super().__init__()
        self.p, self.number = layer.p, layer.number
        self.register_buffer("key", key)

    def forward(self, x: Tensor) -> Tensor:
        clients = len(self.key)
        keep = rng.uniform(rng.fold(self.key, self.number), x.numel() // clients).view(x.shape) >= self.p
        return x * keep.to(x.dtype) / (1.0 - self.p)


def with_client_axis(module: nn.Module) -> nn.Module | str:
    """A copy of the network whose weight-owning layers have a client axis, or the layer that has no such form."""
    problem = next((f"{name or 'the network'} ({type(layer).__name__})" for name, layer in module.named_modules()
                    if _has_own_weights(layer) and not _has_client_form(layer)), None)
    if problem is not None:
        return problem
    copied = copy.deepcopy(module)
    if _has_client_form(copied):
        return _client_form(copied)
    for parent in list(copied.modules()):
        for name, child in list(parent.named_children()):
            if _has_client_form(child):
                setattr(parent, name, _client_form(child))
    return copied


def _has_own_weights(layer: nn.Module) -> bool:
    return any(True for _ in layer.parameters(recurse=False)) or any(True for _ in layer.buffers(recurse=False))


def _has_client_form(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    return type(layer) in (nn.Linear, KeyedDropout)


def _client_form(layer: nn.Module) -> nn.Module:
    if isinstance(layer, nn.Conv2d):
        return ClientConv2d(layer)
    if isinstance(layer, nn.Linear):
        return ClientLinear(layer)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return ClientBatchNorm(layer)
    assert isinstance(layer, KeyedDropout)
    return ClientDropout(layer, torch.zeros(1, dtype=torch.int64))
