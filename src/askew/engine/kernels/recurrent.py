"""Recurrences of many clients at once: LSTM, GRU and plain ones, all time steps as one operation.

A time step is one product with the weights of the recurrence and one elementwise kernel, in one reading and one
writing, forward and backward; the gradient of these weights is one product for all time steps. With sigma the logistic
function and * elementwise, as torch has them:

    LSTM   (i, f, g, o) = gates;  c <- sigma(f) * c + sigma(i) * tanh(g);  h <- sigma(o) * tanh(c)
    GRU    r = sigma(x_r + h_r);  z = sigma(x_z + h_z);  n = tanh(x_n + r * h_n);  h <- (1 - z) * n + z * h
    RNN    h <- tanh(gates), or their positive part

References:
    Hochreiter and Schmidhuber 1997 (LSTM, with forget gates: Gers et al. 2000); Cho et al. 2014 (GRU).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from askew.core.kernel import has_kernels, jit, tl, triton
from askew.core.opaque import opaque
from askew.engine.tuning import RECURRENT_BLOCK

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def wide_type(gates: Tensor) -> torch.dtype:
    """Cells are sums over all time steps: not in 16 bits."""
    return torch.promote_types(gates.dtype, torch.float32)


@opaque("recurrence")
def recurrence(mode: str, gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor,
               c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One operation, whatever the number of time steps: a compiler would write them all out.

    Args:
        gates: [K, T, B, G H], what the inputs bring.
        weight: [K, G H, H].
        bias: [K, G H] of the recurrence's own product, or [K, 0].
        h, c: [K, B, H] to start from; c is used by the LSTM only.

    Returns:
        h and c after each step, [K, T, B, H], and what the backward pass wants to know of
        the gates, [K, T, B, 4 H or H].
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


@recurrence.register_fake
def _(mode: str, gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(mode, gates, h.shape[2], c)


@opaque("recurrence_backward")
def _recurrence_backward(mode: str, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor, hs: Tensor, cs: Tensor,
                         kept: Tensor, dhs: Tensor, dcs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
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
                dc = _lstm_backward(kept[:, t], c if t == 0 else cs[:, t - 1], cs[:, t], dh, dcs[:, t], dc,
                                    dgates[:, t])
            elif mode == "GRU":
                arriving = arriving + _gru_backward(kept[:, t], before[:, t], dh, dgates[:, t], dproduct[:, t])
            else:
                dgates[:, t] = dh * (1 - hs[:, t] * hs[:, t] if mode == "RNN_TANH" else (hs[:, t] > 0))
            dh = torch.baddbmm(arriving, dproduct[:, t], weight)
        dweight = torch.bmm(dproduct.flatten(1, 2).transpose(1, 2), before.flatten(1, 2))
    dbias = (dproduct.sum(dim=(1, 2), dtype=torch.promote_types(bias.dtype, torch.float32)).to(bias.dtype)
             if bias.numel() else bias.clone())
    return dgates, dweight, dbias, dh, dc


@_recurrence_backward.register_fake
def _(mode: str, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor, hs: Tensor, cs: Tensor, kept: Tensor, dhs: Tensor,
      dcs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (hs.new_empty((*hs.shape[:3], GATES[mode] * h.shape[2])),
            torch.empty_like(weight, memory_format=torch.contiguous_format), torch.empty_like(bias),
            torch.empty_like(h), torch.empty_like(c))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mode, _, weight, bias, h, c = inputs
    ctx.save_for_backward(weight, bias, h, c, *output)


def _backward(ctx: Any, dhs: Tensor | None, dcs: Tensor | None, _: Any) -> tuple[Any, ...]:
    weight, bias, h, c, hs, cs, kept = ctx.saved_tensors
    dhs, dcs = (torch.zeros_like(v) if d is None else d.contiguous() for d, v in ((dhs, hs), (dcs, cs)))
    return None, *torch.ops.askew.recurrence_backward(ctx.mode, weight, bias, h, c, hs, cs, kept, dhs, dcs)


recurrence.register_autograd(_backward, setup_context=_setup)


def _lstm(gates: Tensor, c: Tensor, new_h: Tensor, new_c: Tensor, kept: Tensor) -> None:
    """gates [K, B, 4 H] and c [K, B, H] -> the new state, and the gates behind their functions, in the memory given."""
    if has_kernels(gates):
        _launch(_lstm_kernel, new_h, gates, c, new_h, new_c, kept)
        return
    i, f, g, o = gates.to(c.dtype).chunk(4, dim=2)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    torch.add(f * c, i * g, out=new_c)
    new_h.copy_(o * new_c.tanh())
    kept.copy_(torch.cat([i, f, g, o], dim=2))


def _lstm_backward(kept: Tensor, c: Tensor, new_c: Tensor, dh: Tensor, dc_given: Tensor, dc: Tensor,
                   dgates: Tensor) -> Tensor:
    """Gradients of the gates, in the memory given, and of c."""
    if has_kernels(kept):
        out = torch.empty_like(dc)
        _launch(_lstm_backward_kernel, dh, kept, c, new_c, dh, dc_given, dc, dgates, out)
        return out
    i, f, g, o = kept.to(c.dtype).chunk(4, dim=2)
    through, wide = new_c.tanh(), dh.to(c.dtype)
    dc = dc + dc_given + wide * o * (1 - through * through)
    dgates.copy_(torch.cat([dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g),
                            wide * through * o * (1 - o)], dim=2))
    return dc * f


def _gru(gates: Tensor, product: Tensor, h: Tensor, new_h: Tensor, kept: Tensor) -> None:
    """What the inputs and what the recurrence bring [K, B, 3 H], h [K, B, H] -> the new h; r, z, n
    and the product's n are kept."""
    if has_kernels(gates):
        _launch(_gru_kernel, new_h, gates, product, h, new_h, kept)
        return
    wide = torch.promote_types(gates.dtype, torch.float32)
    (x_r, x_z, x_n), (h_r, h_z, h_n) = (v.to(wide).chunk(3, dim=2) for v in (gates, product))
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    new_h.copy_((1 - z) * n + z * h)
    kept.copy_(torch.cat([r, z, n, h_n], dim=2))


def _gru_backward(kept: Tensor, h: Tensor, dh: Tensor, dgates: Tensor, dproduct: Tensor) -> Tensor:
    """Gradients of the inputs' and the recurrence's part, in the memory given, and of h as far as it is carried on."""
    if has_kernels(kept):
        out = torch.empty_like(dh, memory_format=torch.contiguous_format)
        _launch(_gru_backward_kernel, dh, kept, h, dh, dgates, dproduct, out)
        return out
    wide = torch.promote_types(kept.dtype, torch.float32)
    r, z, n, h_n = kept.to(wide).chunk(4, dim=2)
    given = dh.to(wide)
    dn = given * (1 - z) * (1 - n * n)
    dz = given * (h.to(wide) - n) * z * (1 - z)
    dr = dn * h_n * r * (1 - r)
    dgates.copy_(torch.cat([dr, dz, dn], dim=2))
    dproduct.copy_(torch.cat([dr, dz, dn * r], dim=2))
    return (given * z).to(dh.dtype)


@jit
def _tanh(v):
    e = tl.exp(-2.0 * tl.abs(v))  # never overflows
    t = (1.0 - e) / (1.0 + e)
    return tl.where(v < 0, -t, t)


@jit
def _place(BH, N, H: tl.constexpr, BLOCK: tl.constexpr):
    """Of values [K, B, H]: client, example and hidden unit within it, and which are real."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return at // BH, at % BH // H, at % H, at < N


@jit
def _gate(v, k, b, u, real, S, G: tl.constexpr, H: tl.constexpr, NUMBER: tl.constexpr):
    """Gate NUMBER of values [K, B, G H] whose clients lie S apart."""
    return tl.load(v + k * S + b * (G * H) + NUMBER * H + u, mask=real, other=0.0).to(tl.float32)


@jit
def _put(v, k, b, u, real, S, value, G: tl.constexpr, H: tl.constexpr, NUMBER: tl.constexpr):
    tl.store(v + k * S + b * (G * H) + NUMBER * H + u, value.to(v.dtype.element_ty), mask=real)


@jit
def _lstm_kernel(gates, c, new_h, new_c, kept, S_GATES, S_C, S_NEW_H, S_NEW_C, S_KEPT, BH, N, H: tl.constexpr,
                 BLOCK: tl.constexpr):
    k, b, u, real = _place(BH, N, H, BLOCK)
    i = tl.sigmoid(_gate(gates, k, b, u, real, S_GATES, 4, H, 0))
    f = tl.sigmoid(_gate(gates, k, b, u, real, S_GATES, 4, H, 1))
    g = _tanh(_gate(gates, k, b, u, real, S_GATES, 4, H, 2))
    o = tl.sigmoid(_gate(gates, k, b, u, real, S_GATES, 4, H, 3))
    cell = f * _gate(c, k, b, u, real, S_C, 1, H, 0) + i * g
    _put(new_c, k, b, u, real, S_NEW_C, cell, 1, H, 0)
    _put(new_h, k, b, u, real, S_NEW_H, o * _tanh(cell), 1, H, 0)
    _put(kept, k, b, u, real, S_KEPT, i, 4, H, 0)
    _put(kept, k, b, u, real, S_KEPT, f, 4, H, 1)
    _put(kept, k, b, u, real, S_KEPT, g, 4, H, 2)
    _put(kept, k, b, u, real, S_KEPT, o, 4, H, 3)


@jit
def _lstm_backward_kernel(kept, c, new_c, dh, dc_given, dc, dgates, out, S_KEPT, S_C, S_NEW_C, S_DH, S_GIVEN, S_DC,
                          S_DGATES, S_OUT, BH, N, H: tl.constexpr, BLOCK: tl.constexpr):
    k, b, u, real = _place(BH, N, H, BLOCK)
    i = _gate(kept, k, b, u, real, S_KEPT, 4, H, 0)
    f = _gate(kept, k, b, u, real, S_KEPT, 4, H, 1)
    g = _gate(kept, k, b, u, real, S_KEPT, 4, H, 2)
    o = _gate(kept, k, b, u, real, S_KEPT, 4, H, 3)
    through = _tanh(_gate(new_c, k, b, u, real, S_NEW_C, 1, H, 0))
    given = _gate(dh, k, b, u, real, S_DH, 1, H, 0)
    cell = (_gate(dc, k, b, u, real, S_DC, 1, H, 0) + _gate(dc_given, k, b, u, real, S_GIVEN, 1, H, 0)
            + given * o * (1.0 - through * through))
    _put(dgates, k, b, u, real, S_DGATES, cell * g * i * (1.0 - i), 4, H, 0)
    _put(dgates, k, b, u, real, S_DGATES, cell * _gate(c, k, b, u, real, S_C, 1, H, 0) * f * (1.0 - f), 4, H, 1)
    _put(dgates, k, b, u, real, S_DGATES, cell * i * (1.0 - g * g), 4, H, 2)
    _put(dgates, k, b, u, real, S_DGATES, given * through * o * (1.0 - o), 4, H, 3)
    _put(out, k, b, u, real, S_OUT, cell * f, 1, H, 0)


@jit
def _gru_kernel(gates, product, h, new_h, kept, S_GATES, S_PRODUCT, S_H, S_NEW_H, S_KEPT, BH, N, H: tl.constexpr,
                BLOCK: tl.constexpr):
    k, b, u, real = _place(BH, N, H, BLOCK)
    r = tl.sigmoid(_gate(gates, k, b, u, real, S_GATES, 3, H, 0) + _gate(product, k, b, u, real, S_PRODUCT, 3, H, 0))
    z = tl.sigmoid(_gate(gates, k, b, u, real, S_GATES, 3, H, 1) + _gate(product, k, b, u, real, S_PRODUCT, 3, H, 1))
    h_n = _gate(product, k, b, u, real, S_PRODUCT, 3, H, 2)
    n = _tanh(_gate(gates, k, b, u, real, S_GATES, 3, H, 2) + r * h_n)
    _put(new_h, k, b, u, real, S_NEW_H, (1.0 - z) * n + z * _gate(h, k, b, u, real, S_H, 1, H, 0), 1, H, 0)
    _put(kept, k, b, u, real, S_KEPT, r, 4, H, 0)
    _put(kept, k, b, u, real, S_KEPT, z, 4, H, 1)
    _put(kept, k, b, u, real, S_KEPT, n, 4, H, 2)
    _put(kept, k, b, u, real, S_KEPT, h_n, 4, H, 3)


@jit
def _gru_backward_kernel(kept, h, dh, dgates, dproduct, out, S_KEPT, S_H, S_DH, S_DGATES, S_DPRODUCT, S_OUT, BH, N,
                         H: tl.constexpr, BLOCK: tl.constexpr):
    k, b, u, real = _place(BH, N, H, BLOCK)
    r = _gate(kept, k, b, u, real, S_KEPT, 4, H, 0)
    z = _gate(kept, k, b, u, real, S_KEPT, 4, H, 1)
    n = _gate(kept, k, b, u, real, S_KEPT, 4, H, 2)
    given = _gate(dh, k, b, u, real, S_DH, 1, H, 0)
    dn = given * (1.0 - z) * (1.0 - n * n)
    dz = given * (_gate(h, k, b, u, real, S_H, 1, H, 0) - n) * z * (1.0 - z)
    dr = dn * _gate(kept, k, b, u, real, S_KEPT, 4, H, 3) * r * (1.0 - r)
    _put(dgates, k, b, u, real, S_DGATES, dr, 3, H, 0)
    _put(dgates, k, b, u, real, S_DGATES, dz, 3, H, 1)
    _put(dgates, k, b, u, real, S_DGATES, dn, 3, H, 2)
    _put(dproduct, k, b, u, real, S_DPRODUCT, dr, 3, H, 0)
    _put(dproduct, k, b, u, real, S_DPRODUCT, dz, 3, H, 1)
    _put(dproduct, k, b, u, real, S_DPRODUCT, dn * r, 3, H, 2)
    _put(out, k, b, u, real, S_OUT, given * z, 1, H, 0)


def _launch(kernel: Any, like: Tensor, *tensors: Tensor) -> None:
    """All tensors [K, B, ...], each client's values in one piece; the clients may lie apart from each other."""
    for v in tensors:
        assert v[0].is_contiguous(), "a client's values lie in one piece"
    clients, batch, hidden = like.shape
    number = clients * batch * hidden
    programs = triton.cdiv(number, RECURRENT_BLOCK)
    kernel[(programs,)](*tensors, *(v.stride(0) for v in tensors), batch * hidden, number, hidden, RECURRENT_BLOCK)
