"""The hash behind all random streams as one Triton kernel: as library operations it is eleven, each a launch of its own."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _mix(z, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(z + at, mask=at < N, other=0).to(tl.uint64, bitcast=True)
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB
    v = v ^ (v >> 31)
    tl.store(out + at, v.to(tl.int64, bitcast=True), mask=at < N)


def mix(z: Tensor) -> Tensor:
    """The SplitMix64 finaliser of int64 numbers."""
    z = z.contiguous()
    out = torch.empty_like(z)
    _mix[(triton.cdiv(z.numel(), _BLOCK),)](z, out, z.numel(), _BLOCK)
    return out
