"""The hash behind all random streams: the SplitMix64 finaliser, and the numbers in [0, 1) that it makes of a key.

Integers are int64 and wrap. As library operations the hash is eleven, each a launch of its own on a
GPU; there a kernel does it.

References:
    Steele, Lea and Flood 2014, Fast Splittable Pseudorandom Number Generators.
"""

from __future__ import annotations

import torch
from torch import Tensor

from askew.core.compat import is_batched
from askew.core.kernel import jit, tl, triton

GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64: 2^64 / golden ratio, the SplitMix64 increment
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB
_BLOCK = 1024  # numbers per program; not measured


def mix(z: Tensor) -> Tensor:
    """The finaliser of int64 numbers."""
    if _has_kernel(z):
        return mix_in_triton(z)
    # Each mask makes the shift a logical one. In place: of a megabyte, three new tensors instead of eleven take a third
    # of the time (benchmarks/freed_memory.py).
    z = (z >> 30).bitwise_and_(0x3FFFFFFFF).bitwise_xor_(z).mul_(_MIX1)
    z = (z >> 27).bitwise_and_(0x1FFFFFFFFF).bitwise_xor_(z).mul_(_MIX2)
    return (z >> 31).bitwise_and_(0x1FFFFFFFF).bitwise_xor_(z)


def bits(keys: Tensor, count: int) -> Tensor:
    """[..., count] int64 of 63 bits, not negative, of each key."""
    counters = torch.arange(1, count + 1, device=keys.device, dtype=torch.int64) * GOLDEN
    return mix(keys[..., None] + counters) & 0x7FFFFFFFFFFFFFFF


def uniform(keys: Tensor, count: int) -> Tensor:
    """[..., count] float32 in [0, 1) of each key: the highest 24 of the 63 bits."""
    if _has_kernel(keys):
        return uniform_in_triton(keys, count)
    return (bits(keys, count) >> 39).to(torch.float32) * 2.0**-24


def mix_number(z: int) -> int:
    """`mix` of one number on the host, as 0 <= z < 2^64."""
    z %= 2**64
    z = (z ^ (z >> 30)) * _MIX1 % 2**64
    z = (z ^ (z >> 27)) * _MIX2 % 2**64
    return z ^ (z >> 31)


def _has_kernel(z: Tensor) -> bool:
    """On a GPU; not inside `vmap`, whose tensors a kernel cannot take."""
    return triton is not None and z.is_cuda and not is_batched(z)


@jit
def _finalise(v):
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB
    return v ^ (v >> 31)


@jit
def _mix_kernel(z, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(z + at, mask=at < N, other=0).to(tl.uint64, bitcast=True)
    tl.store(out + at, _finalise(v).to(tl.int64, bitcast=True), mask=at < N)


@jit
def _uniform_kernel(keys, out, COUNT, BLOCK: tl.constexpr):
    stream = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + stream).to(tl.uint64, bitcast=True)
    v = _finalise(key + (at + 1).to(tl.uint64, bitcast=True) * 0x9E3779B97F4A7C15)
    # The highest of the 64 bits is dropped as `bits` does, and the next 24 are kept.
    share = ((v >> 39) & 0xFFFFFF).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08
    tl.store(out + stream * COUNT + at, share, mask=at < COUNT)


def mix_in_triton(z: Tensor) -> Tensor:
    """The SplitMix64 finaliser of int64 numbers."""
    z = z.contiguous()
    out = torch.empty_like(z)
    _mix_kernel[(triton.cdiv(z.numel(), _BLOCK),)](z, out, z.numel(), _BLOCK)
    return out


def uniform_in_triton(keys: Tensor, count: int) -> Tensor:
    """[..., count] numbers in [0, 1) of each key, without the integers in between."""
    keys = keys.contiguous()
    out = torch.empty((*keys.shape, count), device=keys.device, dtype=torch.float32)
    if out.numel():
        _uniform_kernel[(keys.numel(), triton.cdiv(count, _BLOCK))](keys, out, count, _BLOCK)
    return out
