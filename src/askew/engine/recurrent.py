"""Recurrent layers of many clients at once: LSTM, GRU and plain recurrences with their own weights.

What the inputs bring to the gates is one batched product for all time steps. A time step is then one product with the
weights of the recurrence and one elementwise kernel, forward and backward; the gradient of these weights is one product
for all time steps again. With sigma the logistic function and * elementwise, as torch has them:

    LSTM   (i, f, g, o) = gates;  c <- sigma(f) * c + sigma(i) * tanh(g);  h <- sigma(o) * tanh(c)
    GRU    r = sigma(x_r + h_r);  z = sigma(x_z + h_z);  n = tanh(x_n + r * h_n);  h <- (1 - z) * n + z * h
    RNN    h <- tanh(gates), or their positive part

References:
    Hochreiter and Schmidhuber 1997 (LSTM, with forget gates: Gers et al. 2000); Cho et al. 2014 (GRU).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from askew.core.opaque import opaque
from askew.engine.client_linear import client_linear
from askew.engine.kernels import has_kernels

if TYPE_CHECKING:
    from askew.engine.dropout import KeyedDropout

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
State = Tensor | tuple[Tensor, Tensor]


def recurrent(layer: nn.RNNBase, weights: Mapping[str, Tensor], dropout: KeyedDropout | None, x: Tensor,
              hx: State | None = None) -> tuple[Tensor, State]:
    """What `layer` computes of K clients' examples behind each other, with their own weights.

    Args:
        layer: for its sizes and options.
        weights: its weights [K, ...] by name.
        dropout: between its levels.
        x, hx: as the layer takes them, in batches.
    """

    def level(number: int, x: Tensor, start: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = x if layer.batch_first else x.transpose(0, 1)  # [K * B, T, I]
        outputs, ends = [], []
        for way in range(2 if layer.bidirectional else 1):
            tail = f"l{number}{'_reverse' * way}"
            hidden, *end = _one_way(layer.mode, x.flip(1) if way else x, tuple(s[way] for s in start), weights[f"weight_ih_{tail}"],
                                    weights[f"weight_hh_{tail}"], weights.get(f"bias_ih_{tail}"), weights.get(f"bias_hh_{tail}"))
            outputs.append(hidden.flip(1) if way else hidden)
            ends.append(end)
        both = torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0]
        return both if layer.batch_first else both.transpose(0, 1), *(torch.stack(end) for end in zip(*ends, strict=True))

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
    starts = hx if isinstance(hx, tuple) else (hx,)
    ends: list[list[Tensor]] = []
    for number in range(layer.num_layers):
        x, *end = level(number, x, tuple(s[number * ways : (number + 1) * ways] for s in starts))
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


def _one_way(mode: str, x: Tensor, start: tuple[Tensor, ...], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
             b_hh: Tensor | None) -> tuple[Tensor, ...]:
    """One level in one direction. x [K * B, T, I], start [K * B, H] each -> outputs [K * B, T, H] and the last state."""
    clients, _, hidden = w_hh.shape
    own, bias = w_hh.new_zeros((clients, 0)), b_ih
    if b_ih is not None and b_hh is not None:
        if mode == "GRU":
            own = b_hh  # its part of n is multiplied by r: it cannot be added to the inputs'
        else:
            bias = b_ih + b_hh
    each = x.unflatten(0, (clients, -1)).transpose(1, 2)  # [K, T, B, I]
    gates = client_linear(each.flatten(0, 1), w_ih, bias).unflatten(0, (clients, -1)).contiguous()
    first, cell = ([*start, start[0]] if len(start) == 1 else list(start))[:2]
    hs, cs, _ = torch.ops.askew.recurrence(mode, gates, w_hh.to(gates.dtype), own.to(gates.dtype),
                                           first.reshape(clients, -1, hidden).to(gates.dtype),
                                           cell.reshape(clients, -1, hidden).to(_wide(gates)))
    out = hs.transpose(1, 2).flatten(0, 1)
    ends = (hs[:, -1].flatten(0, 1), cs[:, -1].flatten(0, 1).to(hs.dtype)) if mode == "LSTM" else (hs[:, -1].flatten(0, 1),)
    return out, *ends


def _wide(gates: Tensor) -> torch.dtype:
    """Cells are sums over all time steps: not in 16 bits."""
    return torch.promote_types(gates.dtype, torch.float32)


@opaque("recurrence")
def _recurrence(mode: str, gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One operation, whatever the number of time steps: a compiler would write them all out.

    Args:
        gates: [K, T, B, G H], what the inputs bring.
        weight: [K, G H, H].
        bias: [K, G H] of the recurrence's own product, or [K, 0].
        h, c: [K, B, H] to start from; c is used by the LSTM only.

    Returns:
        h and c after each step, [K, T, B, H], and what the backward pass wants to know of the gates, [K, T, B, 4 H or H].
    """
    hidden = h.shape[2]
    hs, cs, kept = _outputs(mode, gates, hidden, c)
    across = weight.transpose(1, 2)
    with torch.autocast(gates.device.type, enabled=False):
        for t in range(gates.shape[1]):
            if mode == "GRU":
                product = torch.bmm(h, across) if not bias.numel() else torch.baddbmm(bias[:, None], h, across)
                _gru(gates[:, t], product, h, hs[:, t], kept[:, t])
            else:
                product = torch.baddbmm(gates[:, t], h, across)
                if mode == "LSTM":
                    _lstm(product, c, hs[:, t], cs[:, t], kept[:, t])
                    c = cs[:, t]
                else:
                    hs[:, t] = product.tanh() if mode == "RNN_TANH" else product.relu()
            h = hs[:, t]
    return hs, cs, kept


def _outputs(mode: str, gates: Tensor, hidden: int, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = gates.shape[:3]
    return (gates.new_empty((*shape, hidden)), c.new_empty((*shape, hidden if mode == "LSTM" else 0)),
            gates.new_empty((*shape, 4 * hidden if mode in ("LSTM", "GRU") else 0)))


@_recurrence.register_fake
def _(mode: str, gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(mode, gates, h.shape[2], c)


@opaque("recurrence_backward")
def _recurrence_backward(mode: str, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor, hs: Tensor, cs: Tensor, kept: Tensor,
                         dhs: Tensor, dcs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of gates, weight, bias, h and c."""
    steps, hidden = hs.shape[1], h.shape[2]
    before = torch.cat([h[:, None], hs[:, :-1]], dim=1)
    dgates = hs.new_empty((*hs.shape[:3], GATES[mode] * hidden))
    # What goes back through the recurrence's own product: with a GRU not quite what goes back to the inputs.
    dproduct = torch.empty_like(dgates) if mode == "GRU" else dgates
    dh, dc = dhs[:, -1], torch.zeros_like(c)
    with torch.autocast(hs.device.type, enabled=False):
        for t in reversed(range(steps)):
            arriving = dhs[:, t - 1] if t else torch.zeros_like(h)  # at the h before, from outside
            if mode == "LSTM":
                dc = _lstm_backward(kept[:, t], c if t == 0 else cs[:, t - 1], cs[:, t], dh, dcs[:, t], dc, dgates[:, t])
            elif mode == "GRU":
                arriving = arriving + _gru_backward(kept[:, t], before[:, t], dh, dgates[:, t], dproduct[:, t])
            else:
                dgates[:, t] = dh * (1 - hs[:, t] * hs[:, t] if mode == "RNN_TANH" else (hs[:, t] > 0))
            dh = torch.baddbmm(arriving, dproduct[:, t], weight)
        dweight = torch.bmm(dproduct.flatten(1, 2).transpose(1, 2), before.flatten(1, 2))
    dbias = dproduct.sum(dim=(1, 2), dtype=torch.promote_types(bias.dtype, torch.float32)).to(bias.dtype) if bias.numel() else bias.clone()
    return dgates, dweight, dbias, dh, dc


@_recurrence_backward.register_fake
def _(mode: str, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor, hs: Tensor, cs: Tensor, kept: Tensor, dhs: Tensor,
      dcs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (hs.new_empty((*hs.shape[:3], GATES[mode] * h.shape[2])), torch.empty_like(weight, memory_format=torch.contiguous_format),
            torch.empty_like(bias), torch.empty_like(h), torch.empty_like(c))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mode, _, weight, bias, h, c = inputs
    ctx.save_for_backward(weight, bias, h, c, *output)


def _backward(ctx: Any, dhs: Tensor | None, dcs: Tensor | None, _: Any) -> tuple[Any, ...]:
    weight, bias, h, c, hs, cs, kept = ctx.saved_tensors
    dhs, dcs = (torch.zeros_like(v) if d is None else d.contiguous() for d, v in ((dhs, hs), (dcs, cs)))
    return None, *torch.ops.askew.recurrence_backward(ctx.mode, weight, bias, h, c, hs, cs, kept, dhs, dcs)


_recurrence.register_autograd(_backward, setup_context=_setup)


def _lstm(gates: Tensor, c: Tensor, new_h: Tensor, new_c: Tensor, kept: Tensor) -> None:
    """gates [K, B, 4 H] and c [K, B, H] -> the new state, and the gates behind their functions, in the memory given."""
    if has_kernels(gates):
        from askew.engine.recurrent_kernels import lstm

        return lstm(gates, c, new_h, new_c, kept)
    i, f, g, o = gates.to(c.dtype).chunk(4, dim=2)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    torch.add(f * c, i * g, out=new_c)
    new_h.copy_(o * new_c.tanh())
    kept.copy_(torch.cat([i, f, g, o], dim=2))
    return None


def _lstm_backward(kept: Tensor, c: Tensor, new_c: Tensor, dh: Tensor, dc_given: Tensor, dc: Tensor, dgates: Tensor) -> Tensor:
    """Gradients of the gates, in the memory given, and of c."""
    if has_kernels(kept):
        from askew.engine.recurrent_kernels import lstm_backward

        return lstm_backward(kept, c, new_c, dh, dc_given, dc, dgates)
    i, f, g, o = kept.to(c.dtype).chunk(4, dim=2)
    through, wide = new_c.tanh(), dh.to(c.dtype)
    dc = dc + dc_given + wide * o * (1 - through * through)
    dgates.copy_(torch.cat([dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), wide * through * o * (1 - o)], dim=2))
    return dc * f


def _gru(gates: Tensor, product: Tensor, h: Tensor, new_h: Tensor, kept: Tensor) -> None:
    """What the inputs and what the recurrence bring [K, B, 3 H], h [K, B, H] -> the new h; r, z, n and the product's n are kept."""
    if has_kernels(gates):
        from askew.engine.recurrent_kernels import gru

        return gru(gates, product, h, new_h, kept)
    wide = torch.promote_types(gates.dtype, torch.float32)
    (x_r, x_z, x_n), (h_r, h_z, h_n) = (v.to(wide).chunk(3, dim=2) for v in (gates, product))
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    new_h.copy_((1 - z) * n + z * h)
    kept.copy_(torch.cat([r, z, n, h_n], dim=2))
    return None


def _gru_backward(kept: Tensor, h: Tensor, dh: Tensor, dgates: Tensor, dproduct: Tensor) -> Tensor:
    """Gradients of the inputs' and of the recurrence's part, in the memory given, and of h as far as it is carried over."""
    if has_kernels(kept):
        from askew.engine.recurrent_kernels import gru_backward

        return gru_backward(kept, h, dh, dgates, dproduct)
    wide = torch.promote_types(kept.dtype, torch.float32)
    r, z, n, h_n = kept.to(wide).chunk(4, dim=2)
    given = dh.to(wide)
    dn = given * (1 - z) * (1 - n * n)
    dz = given * (h.to(wide) - n) * z * (1 - z)
    dr = dn * h_n * r * (1 - r)
    dgates.copy_(torch.cat([dr, dz, dn], dim=2))
    dproduct.copy_(torch.cat([dr, dz, dn * r], dim=2))
    return (given * z).to(dh.dtype)
