"""Layers with a client axis: many copies of one network, each with its own weights, as one network.

The examples of K clients lie end to end as one batch of K * B, so that everything that acts on single examples
(ReLU, pooling, flattening, adding, local response normalisation) needs no change; only layers that own weights do.
`with_client_axis` copies a network and puts the layers below in the place of those; its weights are then stacked,
[K, ...], and nothing is transposed between layers, unlike under `torch.func.vmap`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.core.compat import InstanceNorm, computes_as, padding_of
from askew.core.opaque import opaque
from askew.engine.kernels.conv import client_conv2d
from askew.engine.kernels.linear import client_linear
from askew.engine.layers import attention, recurrent
from askew.engine.layers.dropout import KeyedAttention, KeyedDropout, KeyedGRU, KeyedLSTM, KeyedRNN
from askew.engine.layers.fast import use_fast_layers
from askew.engine.layers.norm import ClientBatchNorm, ClientGroupNorm, ClientLayerNorm
from askew.engine.rewrite import neighbours


class ClientConv(nn.Module):
    """`nn.Conv1d` or `nn.Conv2d` with weights [K, O, C / groups, (R,) S]."""

    def __init__(self, layer: nn.Conv1d | nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias, self.flat = layer.weight, layer.bias, isinstance(layer, nn.Conv1d)
        self.stride, self.dilation = (_image(v, 1) if self.flat else v for v in (layer.stride, layer.dilation))
        self.groups, self.mode = layer.groups, layer.padding_mode
        # Where the edge is not zeros, or not the same on both sides, the input is padded before.
        before = padding_of(layer)
        even = all(low == high for low, high in zip(before[::2], before[1::2], strict=True))
        plain = self.mode == "zeros" and even
        self.padding = _image(tuple(before[::2][::-1]), 0) if plain else (0, 0)
        self.before = None if plain else before
        self.centred = False  # BatchNorm comes right behind: it takes the bias out again, whose gradient is 0

    def forward(self, x: Tensor) -> Tensor:
        if self.before is not None:
            x = F.pad(x, self.before, mode="constant" if self.mode == "zeros" else self.mode)
        # What rounding makes of that 0 is not worth reading all gradients once more.
        bias = self.bias.detach() if self.centred and self.bias is not None else self.bias
        weight = self.weight.unsqueeze(3) if self.flat else self.weight
        y = client_conv2d(x.unsqueeze(2) if self.flat else x, weight, bias, self.stride, self.padding, self.dilation,
                          self.groups)
        return y.squeeze(2) if self.flat else y


class ClientLinear(nn.Module):
    """`nn.Linear` with weights [K, O, I]: a batched product.

    Args:
        axis: on which the examples lie.
    """

    def __init__(self, layer: nn.Linear, axis: int = 0) -> None:
        super().__init__()
        self.weight, self.bias, self.axis = layer.weight, layer.bias, axis

    def forward(self, x: Tensor) -> Tensor:
        return client_linear(x.movedim(self.axis, 0), self.weight, self.bias).movedim(0, self.axis)


class ClientEmbedding(nn.Module):
    """`nn.Embedding` with weights [K, words, D].

    Args:
        axis: on which the examples lie.
    """

    def __init__(self, layer: nn.Embedding, axis: int = 0) -> None:
        super().__init__()
        self.weight, self.without_gradient, self.axis = layer.weight, layer.padding_idx, axis

    def forward(self, x: Tensor) -> Tensor:
        clients, words, _ = self.weight.shape
        first = x.movedim(self.axis, 0)
        each = first.reshape(clients, -1)
        offsets = words * torch.arange(clients, device=x.device)[:, None]
        rows = _Rows.apply(self.weight.flatten(0, 1), (each + offsets).flatten()).view(*first.shape, -1)
        if self.without_gradient is not None:
            rows = torch.where((first == self.without_gradient)[..., None], rows.detach(), rows)
        return rows.movedim(0, self.axis)


class _Rows(torch.autograd.Function):
    """weight [W, D], which [N] -> [N, D]; gradients are added in a fixed order, as a compiler's atomic sums are not."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, which: Tensor) -> Tensor:
        ctx.save_for_backward(which)
        ctx.words = weight.shape[0]
        return weight[which]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (which,) = ctx.saved_tensors
        return torch.ops.askew.sum_rows(dy.contiguous(), which, ctx.words), None


@opaque("sum_rows")
def _sum_rows(dy: Tensor, which: Tensor, words: int) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(dy, which, words, -1, False)


@_sum_rows.register_fake
def _(dy: Tensor, which: Tensor, words: int) -> Tensor:
    return dy.new_empty((words, dy.shape[1]))


class ClientPReLU(nn.Module):
    """`nn.PReLU` with weights [K, 1 or C]."""

    def __init__(self, layer: nn.PReLU) -> None:
        super().__init__()
        self.weight = layer.weight

    def forward(self, x: Tensor) -> Tensor:
        each = x.unflatten(0, (self.weight.shape[0], -1))
        slopes = self.weight.view(len(each), 1, -1, *[1] * (each.ndim - 3)) if each.ndim > 2 else self.weight
        return torch.where(each >= 0, each, slopes.to(x.dtype) * each).flatten(0, 1)


class ClientAttention(nn.Module):
    """`nn.MultiheadAttention` with weights [K, ...]."""

    def __init__(self, layer: nn.MultiheadAttention) -> None:
        super().__init__()
        self.batch_first = layer.batch_first  # read by nn.TransformerEncoder
        self._like = [layer]  # for its sizes; in a list, so that its weights are not this layer's, too
        self.inner = ClientDropout(layer.inner) if isinstance(layer, KeyedAttention) else None
        self._names = [name for name, _ in layer.named_parameters(recurse=False)]
        for name in self._names:
            self.register_parameter(name, getattr(layer, name))
        self.out_proj = _Weights(layer.out_proj)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *args: Any,
                **options: Any) -> tuple[Tensor, Tensor | None]:
        weights = {name: getattr(self, name) for name in self._names}
        weights |= {f"out_proj.{name}": getattr(self.out_proj, name) for name in self.out_proj.names}
        return attention.attention(self._like[0], weights, self.inner, query, key, value, *args, **options)


class ClientRecurrent(nn.Module):
    """`nn.LSTM`, `nn.GRU` or `nn.RNN` with weights [K, ...]."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self._like = [layer]
        self.inner = ClientDropout(layer.inner) if isinstance(layer, KeyedLSTM | KeyedGRU | KeyedRNN) else None
        self._names = [name for name, _ in layer.named_parameters(recurse=False)]
        for name in self._names:
            self.register_parameter(name, getattr(layer, name))

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        return recurrent.recurrent(self._like[0], {name: getattr(self, name) for name in self._names}, self.inner, x,
                                   hx)

    def flatten_parameters(self) -> None:
        """Networks call it; there is nothing to do."""


class _Weights(nn.Module):
    """The weights of a layer under their names, and nothing else."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.names = [name for name, _ in layer.named_parameters(recurse=False)]
        for name in self.names:
            self.register_parameter(name, getattr(layer, name))


class ClientDropout(KeyedDropout):
    """`KeyedDropout` with one key for each client, handed over as a buffer [K]."""

    def __init__(self, layer: KeyedDropout) -> None:
        super().__init__(layer.p, layer.number, layer.channels, layer.axis)
        self.training = layer.training
        del self.key
        self.register_buffer("key", torch.zeros(1, dtype=torch.int64))


Maker = Callable[[Any, int], nn.Module]  # (layer, axis of the examples) -> its form with a client axis
FORMS: dict[type[nn.Module], Maker] = {
    nn.Conv1d: lambda layer, axis: ClientConv(layer), nn.Conv2d: lambda layer, axis: ClientConv(layer),
    nn.Linear: ClientLinear, nn.Embedding: ClientEmbedding, nn.PReLU: lambda layer, axis: ClientPReLU(layer),
    nn.LayerNorm: ClientLayerNorm, nn.RMSNorm: ClientLayerNorm,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), lambda layer, axis: ClientBatchNorm(layer)),
    **dict.fromkeys((nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
                    lambda layer, axis: ClientGroupNorm(layer)),
    **dict.fromkeys((nn.MultiheadAttention, KeyedAttention), lambda layer, axis: ClientAttention(layer)),
    **dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN, KeyedLSTM, KeyedGRU, KeyedRNN),
                    lambda layer, axis: ClientRecurrent(layer)),
    KeyedDropout: lambda layer, axis: ClientDropout(layer),
}


def with_client_axis(module: nn.Module, axes: Mapping[str, int]) -> tuple[nn.Module, set[str]] | str:
    """A copy of the network whose weight-owning layers have a client axis, or the layer that has no such form.

    Args:
        axes: layer's name -> the axis on which its examples lie, where that is not the first.

    Returns:
        the copy, and the names of weights and buffers that are used by a `forward` of the network's own, as they are.
    """
    bare: set[str] = set()
    paths = tuple(f"{path}." for path, layer in module.named_modules() if path and _has_client_form(layer))
    for path, layer in module.named_modules():
        if path.startswith(paths):
            continue  # inside a layer that has a form as a whole
        owned = [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]
        if not owned or _has_client_form(layer):
            continue
        if type(layer).__module__.startswith("torch."):
            return f"{path or 'the network'} ({type(layer).__name__})"
        bare |= {f"{path}.{name}" if path else name for name, _ in owned}
    copied = copy.deepcopy(module)
    if _has_client_form(copied):
        return _client_form(copied, axes.get("", 0)), bare
    forms: dict[int, nn.Module] = {}
    for path, parent in list(copied.named_modules()):
        for name, child in list(parent._modules.items()):  # a layer may stand in several places
            if child is not None and _has_client_form(child):
                if id(child) not in forms:
                    forms[id(child)] = _client_form(child, axes.get(f"{path}.{name}" if path else name, 0))
                setattr(parent, name, forms[id(child)])
    for _, (_, layer), (_, after) in neighbours(copied):
        if isinstance(layer, ClientConv) and isinstance(after, ClientBatchNorm) and after.training:
            layer.centred = True
    use_fast_layers(copied)
    return copied, bare


def _kind(layer: nn.Module) -> type[nn.Module] | None:
    """The layer among `FORMS` that this one is, or that it only renames: a subclass that computes otherwise is not."""
    for kind in type(layer).__mro__:
        if kind in FORMS:
            return kind if computes_as(layer, kind) else None
    return None


def _has_client_form(layer: nn.Module) -> bool:
    if _is_client_form(layer):
        return True
    if _kind(layer) is None:
        return False
    if isinstance(layer, nn.Embedding):
        return layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
    if isinstance(layer, nn.GroupNorm):
        return layer.affine
    if isinstance(layer, InstanceNorm):
        return layer.affine and not layer.track_running_stats
    if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
        return layer.elementwise_affine
    if isinstance(layer, nn.MultiheadAttention):
        return attention.has_client_axis(layer)
    if isinstance(layer, nn.RNNBase):
        return recurrent.has_client_axis(layer)
    return True


def _is_client_form(layer: nn.Module) -> bool:
    """A layer may say that it takes weights with a client axis in front: `client_axis = True` (ScalarBias does)."""
    return bool(getattr(layer, "client_axis", False))


def _client_form(layer: nn.Module, axis: int) -> nn.Module:
    if _is_client_form(layer):
        return layer
    kind = _kind(layer)
    assert kind is not None, "_has_client_form has looked"
    form = FORMS[kind](layer, axis)
    for name, value in vars(layer).items():  # a `forward` of the network's own may read its sizes
        if not name.startswith("_") and not hasattr(form, name) and isinstance(value, int | float | str | tuple | None):
            setattr(form, name, value)
    return form


def _image(value: Any, row: int) -> tuple[int, int]:
    """An option of a convolution in one or two directions, as of two."""
    return (row, *value) if len(value) == 1 else tuple(value)
