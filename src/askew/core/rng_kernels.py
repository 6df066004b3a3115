"""The hash behind all random streams as Triton kernels: as library operations it is eleven, each a launch of its own."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _finalise(v):
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB
    return v ^ (v >> 31)


@triton.jit
def _mix(z, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(z + at, mask=at < N, other=0).to(tl.uint64, bitcast=True)
    tl.store(out + at, _finalise(v).to(tl.int64, bitcast=True), mask=at < N)


@triton.jit
def _uniform(keys, out, COUNT, BLOCK: tl.constexpr):
    stream = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + stream).to(tl.uint64, bitcast=True)
    v = _finalise(key + (at + 1).to(tl.uint64, bitcast=True) * 0x9E3779B97F4A7C15)
    # The highest of the 64 bits is dropped as `rng.bits` does, and the next 24 are kept.
    share = ((v >> 39) & 0xFFFFFF).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08
    tl.store(out + stream * COUNT + at, share, mask=at < COUNT)


def mix(z: Tensor) -> Tensor:
    """The SplitMix64 finaliser of int64 numbers."""
    z = z.contiguous()
    out = torch.empty_like(z)
    _mix[(triton.cdiv(z.numel(), _BLOCK),)](z, out, z.numel(), _BLOCK)
    return out


def uniform(keys: Tensor, count: int) -> Tensor:
    """[..., count] numbers in [0, 1) of each key, without the integers in between."""
    keys = keys.contiguous()
    out = torch.empty((*keys.shape, count), device=keys.device, dtype=torch.float32)
    if out.numel():
        _uniform[(keys.numel(), triton.cdiv(count, _BLOCK))](keys, out, count, _BLOCK)
    return out
