"""Recurrent layers of many clients at once: LSTM, GRU and plain recurrences with their own weights.

What the inputs bring to the gates is one batched product for all time steps;
`kernels.recurrent` then goes through them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from askew.engine.kernels.linear import client_linear
from askew.engine.kernels.recurrent import GATES, recurrence, wide_type

if TYPE_CHECKING:
    from askew.engine.layers.dropout import KeyedDropout

State = Tensor | tuple[Tensor, Tensor]


def recurrent(layer: nn.RNNBase, weights: Mapping[str, Tensor], dropout: KeyedDropout | None, x: Tensor,
              hx: State | None = None) -> tuple[Tensor, State]:
    """What `layer` computes of K clients' examples end to end, with their own weights.

    Args:
        layer: for its sizes and options.
        weights: its weights [K, ...] by name.
        dropout: between its levels.
        x, hx: as the layer takes them, in batches.
    """

    def level(number: int, x: Tensor, initial: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = x if layer.batch_first else x.transpose(0, 1)  # [K * B, T, I]
        outputs, ends = [], []
        for way in range(2 if layer.bidirectional else 1):
            tail = f"l{number}{'_reverse' * way}"
            hidden, *end = _one_way(layer.mode, x.flip(1) if way else x, tuple(s[way] for s in initial),
                                    weights[f"weight_ih_{tail}"], weights[f"weight_hh_{tail}"],
                                    weights.get(f"bias_ih_{tail}"), weights.get(f"bias_hh_{tail}"))
            outputs.append(hidden.flip(1) if way else hidden)
            ends.append(end)
        both = torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0]
        last = (torch.stack(end) for end in zip(*ends, strict=True))
        return both if layer.batch_first else both.transpose(0, 1), *last

    return levels(layer, x, hx, level, dropout)


def levels(layer: nn.RNNBase, x: Tensor, hx: State | None, level: Callable[..., tuple[Tensor, ...]],
           dropout: KeyedDropout | None) -> tuple[Tensor, State]:
    """The levels of a recurrent layer one on top of the other, with dropout between them.

    Args:
        level: (number, inputs, what the level starts from) -> (outputs, what it ends with).
    """
    ways, axis = 2 if layer.bidirectional else 1, 0 if layer.batch_first else 1
    parts = 2 if layer.mode == "LSTM" else 1
    if hx is None:
        h, c = (x.new_zeros((layer.num_layers * ways, x.shape[axis], size), dtype=_floating(x))
                for size in (layer.proj_size or layer.hidden_size, layer.hidden_size))
        hx = (h, c) if parts == 2 else h
    initial = hx if isinstance(hx, tuple) else (hx,)
    ends: list[list[Tensor]] = []
    for number in range(layer.num_layers):
        x, *end = level(number, x, tuple(s[number * ways : (number + 1) * ways] for s in initial))
        ends.append(end)
        if dropout is not None and dropout.p > 0 and number + 1 < layer.num_layers:
            x = x * dropout.factors(x, axis, 3)
    last = [torch.cat(end) for end in zip(*ends, strict=True)]
    return x, (last[0], last[1]) if parts == 2 else last[0]


def has_client_axis(layer: nn.RNNBase) -> bool:
    """Not with projected outputs."""
    return layer.mode in GATES and layer.proj_size == 0


def _floating(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.get_default_dtype()


def _one_way(mode: str, x: Tensor, initial: tuple[Tensor, ...], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
             b_hh: Tensor | None) -> tuple[Tensor, ...]:
    """One level in one direction. x [K * B, T, I], initial [K * B, H] each -> outputs [K * B, T, H] and last state."""
    clients, _, hidden = w_hh.shape
    hidden_bias, bias = w_hh.new_zeros((clients, 0)), b_ih
    if b_ih is not None and b_hh is not None:
        if mode == "GRU":
            hidden_bias = b_hh  # its part of n is multiplied by r: it cannot be added to the inputs'
        else:
            bias = b_ih + b_hh
    each = x.unflatten(0, (clients, -1)).transpose(1, 2)  # [K, T, B, I]
    gates = client_linear(each.flatten(0, 1), w_ih, bias).unflatten(0, (clients, -1)).contiguous()
    first, cell = ([*initial, initial[0]] if len(initial) == 1 else list(initial))[:2]
    hs, cs, _ = recurrence(mode, gates, w_hh.to(gates.dtype), hidden_bias.to(gates.dtype),
                                           first.reshape(clients, -1, hidden).to(gates.dtype),
                                           cell.reshape(clients, -1, hidden).to(wide_type(gates)))
    out = hs.transpose(1, 2).flatten(0, 1)
    ends = ((hs[:, -1].flatten(0, 1), cs[:, -1].flatten(0, 1).to(hs.dtype)) if mode == "LSTM"
            else (hs[:, -1].flatten(0, 1),))
    return out, *ends
