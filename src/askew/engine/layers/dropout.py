"""Dropout whose masks belong to the client, not to the machine: the same on every engine and in every batch.

Every layer that drops values by itself (`nn.Dropout`, `nn.Dropout1d` to `3d`, attention, recurrent layers between their
levels) gets a form that draws from a key, which the engine sets before each step. A mask is drawn with the examples
first, whichever axis of the tensor they lie on: a batch that is padded at its end has the same masks in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from askew.core import rng
from askew.core.compat import weights_by_level
from askew.engine.layers.attention import attention, has_client_axis
from askew.engine.layers.recurrent import levels

CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # these drop whole channels of an example


class KeyedDropout(nn.Module):
    """`nn.Dropout`, or `nn.Dropout1d` to `3d`, that draws from keys.

    Args:
        p: share of values that are set to 0; the others grow by 1 / (1 - p).
        number: tells the layers of one network apart.
        channels: drop whole channels of examples that have so many axes besides (1 to 3); 0: single values.
        axis: on which the examples lie.
    """

    def __init__(self, p: float, number: int, channels: int = 0, axis: int = 0) -> None:
        super().__init__()
        self.p, self.number, self.channels, self.axis = p, number, channels, axis
        self.key: Tensor | None = None  # [], or [K] for the examples of K clients end to end
        self.calls = 0  # in this step: a layer that is used twice draws twice

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        # As torch reads them: [C, L] is one example of 1d, [C, D, H, W] of 3d; [N, C, L] are several, for 2d, too.
        alone = self.channels in (1, 3) and x.ndim == self.channels + 1
        return x * self.factors(x, self.axis, x.ndim if not self.channels else 1 if alone else 2)

    def factors(self, like: Tensor, axis: int, rank: int) -> Tensor:
        """0 for what is dropped, 1 / (1 - p) for what stays, of the first `rank` axes with the examples in front."""
        assert self.key is not None, "an engine sets the keys before each step"
        key = rng.fold(self.key, self.number)
        if self.calls:
            key = rng.fold(key, self.calls)
        self.calls += 1
        shape = (like.shape[axis], *(size for i, size in enumerate(like.shape) if i != axis))
        drawn = shape[:rank]
        count = 1
        for size in drawn:
            count *= size
        clients = key.numel()
        keep = rng.uniform(key, count // clients).reshape(*drawn, *[1] * (like.ndim - rank)) >= self.p
        return (keep.to(like.dtype) / max(1.0 - self.p, 1e-38)).movedim(0, axis)


def key_dropouts(module: nn.Module, axes: Mapping[str, int] | None = None) -> None:
    """Give every layer that drops values a form that draws from keys, in place.

    Args:
        axes: layer's name -> the axis on which its examples lie, where that is not the first.
    """
    keyed: dict[int, nn.Module] = {}
    for path, parent in list(module.named_modules()):
        for name, child in list(parent._modules.items()):  # a layer may stand in several places
            if child is None or not _drops(child):
                continue
            if id(child) not in keyed:
                keyed[id(child)] = _keyed(child, len(keyed), (axes or {}).get(f"{path}.{name}" if path else name, 0))
            setattr(parent, name, keyed[id(child)])
    if _drops(module) and not isinstance(module, (nn.Dropout, *CHANNELS)):  # the network itself is such a layer
        _keyed(module, len(keyed), 0)


def dropouts(module: nn.Module) -> list[KeyedDropout]:
    return [layer for layer in module.modules() if isinstance(layer, KeyedDropout)]


def set_keys(layers: list[KeyedDropout], key: Tensor) -> None:
    for layer in layers:
        layer.key, layer.calls = key, 0


def _drops(layer: nn.Module) -> bool:
    if type(layer) in (nn.Dropout, *CHANNELS):
        return True
    if type(layer) is nn.MultiheadAttention:
        return layer.dropout > 0 and has_client_axis(layer)  # else torch's own, which draws from the global generator
    return isinstance(layer, nn.RNNBase) and type(layer) in _KEYED and layer.dropout > 0


def _keyed(layer: nn.Module, number: int, axis: int) -> nn.Module:
    if isinstance(layer, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
        channels = CHANNELS.index(type(layer)) + 1 if isinstance(layer, CHANNELS) else 0
        keyed = KeyedDropout(layer.p, number, channels, axis)
        keyed.training = layer.training
        return keyed
    assert isinstance(layer, nn.MultiheadAttention | nn.RNNBase)
    layer.inner = KeyedDropout(layer.dropout, number)
    # The same weights under the same names, with another `forward`.
    layer.__class__ = _KEYED[type(layer)]  # type: ignore[assignment]
    return layer


class KeyedAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` whose attention weights are dropped by a key."""

    inner: KeyedDropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *args: Any,
                **options: Any) -> tuple[Tensor, Tensor | None]:
        if not self.training or query.ndim != 3:  # one example without a batch around it: as torch does it
            return super().forward(query, key, value, *args, **options)
        weights = {name: p[None] for name, p in self.named_parameters()}  # those of K = 1 clients
        return attention(self, weights, self.inner, query, key, value, *args, **options)


class _KeyedRecurrent(nn.RNNBase):
    """A recurrent layer of several levels whose outputs are dropped by a key between them."""

    inner: KeyedDropout

    def forward(self, x: Tensor,
                hx: Tensor | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
        # Packed, or without a batch: as torch does it.
        if not self.training or not isinstance(x, Tensor) or x.ndim != 3:
            return super().forward(x, hx)
        recur: Callable[..., tuple[Tensor, ...]] = getattr(torch, self.mode.lower())
        weights_of = weights_by_level(self)

        def level(number: int, x: Tensor, initial: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            ways = len(weights_of) // self.num_layers
            weights = [w for way in weights_of[number * ways : (number + 1) * ways] for w in way]
            state = initial if self.mode == "LSTM" else initial[0]
            return recur(x, state, weights, self.bias, 1, 0.0, True, self.bidirectional, self.batch_first)

        return levels(self, x, hx, level, self.inner)


class KeyedLSTM(_KeyedRecurrent, nn.LSTM):  # type: ignore[misc]
    """`nn.LSTM` with dropout between its levels."""


class KeyedGRU(_KeyedRecurrent, nn.GRU):  # type: ignore[misc]
    """`nn.GRU` with dropout between its levels."""


class KeyedRNN(_KeyedRecurrent, nn.RNN):  # type: ignore[misc]
    """`nn.RNN` with dropout between its levels."""


_KEYED: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: KeyedAttention, nn.LSTM: KeyedLSTM, nn.GRU: KeyedGRU, nn.RNN: KeyedRNN}
