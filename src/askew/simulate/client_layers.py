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
from askew.simulate.fast_layers import use_fast_layers
from askew.simulate.rewrite import neighbours


class ClientConv2d(nn.Module):
    """`nn.Conv2d` with weights [K, O, C, R, S]."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation
        self.centred = False  # BatchNorm comes right behind: it takes the bias out again, whose gradient is 0

    def forward(self, x: Tensor) -> Tensor:
        # What rounding makes of that 0 is not worth reading all gradients once more.
        bias = self.bias.detach() if self.centred and self.bias is not None else self.bias
        return client_conv2d(x, self.weight, bias, self.stride, self.padding, self.dilation)


class ClientLinear(nn.Module):
    """`nn.Linear` with weights [K, O, I]: a batched product."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        clients, outputs, inputs = self.weight.shape
        rows = x.reshape(clients, -1, inputs)
        if x.is_cuda:
            kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else rows.dtype
            result = _Products.apply(rows.to(kind), self.weight.to(kind))
            return (result if self.bias is None else result + self.bias.to(kind)[:, None]).view(*x.shape[:-1], outputs)
        weight = self.weight.transpose(1, 2)
        result = torch.bmm(rows, weight) if self.bias is None else torch.baddbmm(self.bias[:, None], rows, weight)
        return result.view(*x.shape[:-1], outputs)


class _Products(torch.autograd.Function):
    """rows [K, B, I], weight [K, O, I] -> [K, B, O].

    Written out so that the gradient of the weight comes in the weight's own order: torch makes it transposed, and whoever
    adds it to the weight then reads it across the grain.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return torch.bmm(rows, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        rows, weight = ctx.saved_tensors
        return torch.bmm(dy, weight), torch.bmm(dy.transpose(1, 2), rows)


class ClientBatchNorm(nn.Module):
    """`nn.BatchNorm1d` or `2d` in training mode, with weights and statistics [K, C]: each client's batch by itself.

    Where batches are padded to one size, the buffer `counts` [K] says how many examples of each client are real: only
    they count, and a client with none keeps its statistics.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    counts: Tensor

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        super().__init__()
        assert layer.momentum is not None, "_has_client_form saw to that"
        self.weight, self.bias, self.eps, self.momentum = layer.weight, layer.bias, layer.eps, layer.momentum
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(layer, name))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64))  # none: all are real

    def forward(self, x: Tensor) -> Tensor:
        clients = self.weight.shape[0]
        each = x.unflatten(0, (clients, -1))
        real = self.counts if self.counts.numel() else torch.full((clients,), each.shape[1], device=x.device)
        result, mean, var = _Normalise.apply(each, self.weight, self.bias, self.eps, real)
        with torch.no_grad():
            values = real[:, None] * (x[0].numel() // x.shape[1])  # that a channel's statistics are of
            moves = torch.where(values > 0, self.momentum, 0.0)
            self.running_mean.lerp_(mean, moves)
            self.running_var.lerp_(var * (values / (values - 1).clamp_min(1)), moves)  # torch keeps the unbiased variance
            self.num_batches_tracked.add_((real > 0).to(torch.int64))
        return result.flatten(0, 1)


class _Normalise(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b over each client's real examples; x [K, B, C, ...], statistics in fp32.

    Written out so that padding counts for nothing and so that a GPU takes the sums with kernels of our own.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        across, shape = _across(x)
        wide = _as(x, torch.float32)
        if x.is_cuda and x.ndim == 5:
            from askew.simulate.batch_norm_kernels import var_mean

            var, mean = var_mean(x, real)
        else:
            values, mask = _values(x, real), _mask(x, real)
            mean = (wide * mask).sum(dim=across) / values
            var = ((wide - mean.view(shape)).square() * mask).sum(dim=across) / values
        inverse = torch.rsqrt(var + eps)
        ctx.save_for_backward(x, weight, mean, inverse, real)
        ctx.mark_non_differentiable(mean, var)
        result = (wide - mean.view(shape)) * (inverse * weight).view(shape) + bias.view(shape)
        return _as(result, x.dtype), mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight, mean, inverse, real = ctx.saved_tensors
        across, shape = _across(x)
        normal = (x.float() - mean.view(shape)) * inverse.view(shape)
        # What comes back from padding is 0 already: from the loss, and from every BatchNorm behind this one.
        if x.is_cuda and x.ndim == 5:
            from askew.simulate.batch_norm_kernels import gradient_sums

            dbias, dweight = gradient_sums(x, dy, mean, inverse)
            dy = dy.float()
        else:
            dy = dy.float()
            dbias, dweight = dy.sum(dim=across), (dy * normal).sum(dim=across)
        share = 1 / _values(x, real)
        dx = (dy - (dbias * share).view(shape) - normal * (dweight * share).view(shape)) * (inverse * weight).view(shape) * _mask(x, real)
        return dx.to(x.dtype), dweight, dbias, None, None


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Not `x.to`, which returns x itself where there is nothing to do: torch 2.11 compiles a function whose forward does that to
    one without gradients (https://github.com/pytorch/pytorch/issues/180642)."""
    return x if x.dtype == dtype else x.to(dtype)


def _mask(x: Tensor, real: Tensor) -> Tensor:
    """[K, B, 1, ...]: 1 for real examples, 0 for padding."""
    mask = torch.arange(x.shape[1], device=x.device) < real[:, None]
    return mask.view(*mask.shape, *[1] * (x.ndim - 2)).float()


def _values(x: Tensor, real: Tensor) -> Tensor:
    """[K, 1]: values that a channel's statistics are of."""
    return (real.clamp_min(1) * (x[0, 0].numel() // x.shape[2]))[:, None].float()


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
        clients = self.key.shape[0]
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
    for _, (_, layer), (_, after) in neighbours(copied):
        if isinstance(layer, ClientConv2d) and isinstance(after, ClientBatchNorm):
            layer.centred = True
    use_fast_layers(copied)
    return copied


def _has_own_weights(layer: nn.Module) -> bool:
    return any(True for _ in layer.parameters(recurse=False)) or any(True for _ in layer.buffers(recurse=False))


def _has_client_form(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    return type(layer) in (nn.Linear, KeyedDropout) or _is_client_form(layer)


def _is_client_form(layer: nn.Module) -> bool:
    """A layer may say that it takes weights with a client axis in front as it is: `client_axis = True` (ScalarBias does)."""
    return bool(getattr(layer, "client_axis", False))


def _client_form(layer: nn.Module) -> nn.Module:
    if _is_client_form(layer):
        return layer
    if isinstance(layer, nn.Conv2d):
        return ClientConv2d(layer)
    if isinstance(layer, nn.Linear):
        return ClientLinear(layer)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return ClientBatchNorm(layer)
    assert isinstance(layer, KeyedDropout)
    return ClientDropout(layer, torch.zeros(1, dtype=torch.int64))
