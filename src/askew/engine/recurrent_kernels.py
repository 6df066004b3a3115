"""Triton kernels of one time step of recurrent layers: all that is elementwise, in one reading and one writing."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 512


@triton.jit
def _tanh(v):
    e = tl.exp(-2.0 * tl.abs(v))  # never overflows
    t = (1.0 - e) / (1.0 + e)
    return tl.where(v < 0, -t, t)


@triton.jit
def _place(BH, N, H: tl.constexpr, BLOCK: tl.constexpr):
    """Of values [K, B, H]: client, example and hidden unit within it, and which are real."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return at // BH, at % BH // H, at % H, at < N


@triton.jit
def _gate(v, k, b, u, real, S, G: tl.constexpr, H: tl.constexpr, NUMBER: tl.constexpr):
    """Gate NUMBER of values [K, B, G H] whose clients lie S apart."""
    return tl.load(v + k * S + b * (G * H) + NUMBER * H + u, mask=real, other=0.0).to(tl.float32)


@triton.jit
def _put(v, k, b, u, real, S, value, G: tl.constexpr, H: tl.constexpr, NUMBER: tl.constexpr):
    tl.store(v + k * S + b * (G * H) + NUMBER * H + u, value.to(v.dtype.element_ty), mask=real)


@triton.jit
def _lstm(gates, c, new_h, new_c, kept, S_GATES, S_C, S_NEW_H, S_NEW_C, S_KEPT, BH, N, H: tl.constexpr, BLOCK: tl.constexpr):
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


@triton.jit
def _lstm_backward(kept, c, new_c, dh, dc_given, dc, dgates, out, S_KEPT, S_C, S_NEW_C, S_DH, S_GIVEN, S_DC, S_DGATES, S_OUT, BH, N,
                   H: tl.constexpr, BLOCK: tl.constexpr):
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


@triton.jit
def _gru(gates, product, h, new_h, kept, S_GATES, S_PRODUCT, S_H, S_NEW_H, S_KEPT, BH, N, H: tl.constexpr, BLOCK: tl.constexpr):
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


@triton.jit
def _gru_backward(kept, h, dh, dgates, dproduct, out, S_KEPT, S_H, S_DH, S_DGATES, S_DPRODUCT, S_OUT, BH, N, H: tl.constexpr,
                  BLOCK: tl.constexpr):
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
    kernel[(triton.cdiv(number, _BLOCK),)](*tensors, *(v.stride(0) for v in tensors), batch * hidden, number, hidden, _BLOCK)


def lstm(gates: Tensor, c: Tensor, new_h: Tensor, new_c: Tensor, kept: Tensor) -> None:
    _launch(_lstm, new_h, gates, c, new_h, new_c, kept)


def lstm_backward(kept: Tensor, c: Tensor, new_c: Tensor, dh: Tensor, dc_given: Tensor, dc: Tensor, dgates: Tensor) -> Tensor:
    out = torch.empty_like(dc)
    _launch(_lstm_backward, dh, kept, c, new_c, dh, dc_given, dc, dgates, out)
    return out


def gru(gates: Tensor, product: Tensor, h: Tensor, new_h: Tensor, kept: Tensor) -> None:
    _launch(_gru, new_h, gates, product, h, new_h, kept)


def gru_backward(kept: Tensor, h: Tensor, dh: Tensor, dgates: Tensor, dproduct: Tensor) -> Tensor:
    out = torch.empty_like(dh, memory_format=torch.contiguous_format)
    _launch(_gru_backward, dh, kept, h, dh, dgates, dproduct, out)
    return out
