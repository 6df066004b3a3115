"""Random numbers as pure functions of a key: (seed, role, round, client, ...) -> numbers.

Every draw is a hash of its key and a counter (the SplitMix64 finaliser of Steele, Lea and Flood 2014, in int64
arithmetic that wraps), so a stream never depends on call order, on global state, on who else is in the batch or on
the device: a client draws the same shuffle alone or among a thousand, on a CPU or a GPU. Keys are int64 tensors and
may carry batch axes; all functions work inside `torch.func.vmap`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from askew.core.opaque import Opaque
from askew.core.splitmix import GOLDEN, mix, mix_number
from askew.core.splitmix import bits as _bits
from askew.core.splitmix import uniform as _uniform


def key(seed: int, role: str, *parts: int) -> Tensor:
    """The key of a named stream, e.g. `key(seed, "shuffle", round, client)`."""
    digest = hashlib.blake2b(f"{seed}/{role}".encode(), digest_size=8).digest()
    root = int.from_bytes(digest, "little")
    for part in parts:  # as `fold` does it, without a tensor operation for each of its steps
        root = mix_number(mix_number(root) + (part + 1) * GOLDEN)
    return torch.tensor(_signed(root))


def fold(keys: Tensor, data: Tensor | int) -> Tensor:
    """A new key from a key and a number; broadcasts, so a column of clients gives a column of keys."""
    if torch.compiler.is_compiling():
        return torch.ops.askew.fold(keys, data if isinstance(data, Tensor) else None,
                                    data if isinstance(data, int) else 0)
    return _fold(keys, data if isinstance(data, Tensor) else None, data if isinstance(data, int) else 0)


def bits(keys: Tensor, count: int) -> Tensor:
    """`count` random int64 (63 bits, non-negative) for each key, along a new last axis."""
    return torch.ops.askew.bits(keys, count) if torch.compiler.is_compiling() else _bits(keys, count)


def uniform(keys: Tensor, count: int) -> Tensor:
    """`count` float32 in [0, 1) for each key."""
    return torch.ops.askew.uniform(keys, count) if torch.compiler.is_compiling() else _uniform(keys, count)


def normal(keys: Tensor, count: int) -> Tensor:
    """`count` standard normal float32 for each key (Box and Muller 1958)."""
    half = (count + 1) // 2
    u = uniform(keys, 2 * half)
    radius = torch.sqrt(-2.0 * torch.log1p(-u[..., :half]))  # 1 - u is in (0, 1]: the logarithm is finite
    angle = (2.0 * torch.pi) * u[..., half:]
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)[..., :count]


def permutation(keys: Tensor, count: int) -> Tensor:
    """A random order of 0 ... count-1 for each key."""
    return torch.argsort(bits(keys, count), dim=-1, stable=True)


def choose(stream: Tensor, population: int, count: int) -> Tensor:
    """`count` different numbers below `population`, sorted; the cost does not grow with the population."""
    if 4 * count >= population:
        return permutation(stream, population)[:count].sort().values
    drawn = bits(stream, 2 * count + 64) % population  # at most a quarter is taken: doubles are rarer than 1 in 4
    values, inverse = drawn.unique(return_inverse=True)
    first = torch.full_like(values, len(drawn)).scatter_reduce_(0, inverse, torch.arange(len(drawn)), "amin")
    return values[first.argsort()[:count]].sort().values


def int_seed(seed: int, role: str, *parts: int) -> int:
    """A 63-bit integer for generators that take one (numpy, `torch.manual_seed`)."""
    return int(key(seed, role, *parts)) & 0x7FFFFFFFFFFFFFFF


def _fold(keys: Tensor, data: Tensor | None, number: int) -> Tensor:
    if data is not None:
        return mix(mix(keys) + (data.to(torch.int64) + 1) * GOLDEN)
    return mix(mix(keys) + _signed((number + 1) * GOLDEN))  # on the host: no copy to the device, which a graph forbids


def _signed(z: int) -> int:
    """A number that wraps as int64 does."""
    return (z + 2**63) % 2**64 - 2**63


# A compiler must not look inside: Inductor writes the constants above as 32-bit numbers for a GPU,
# and fails or, worse, does not.
_OPAQUE = {
    "fold": Opaque("fold", _fold),
    "bits": Opaque("bits", _bits),
    "uniform": Opaque("uniform", _uniform),
}


@_OPAQUE["fold"].register_fake
def _(keys: Tensor, data: Tensor | None, number: int) -> Tensor:
    return torch.empty_like(keys if data is None else keys + data, dtype=torch.int64)


@_OPAQUE["bits"].register_fake
def _(keys: Tensor, count: int) -> Tensor:
    return keys.new_empty((*keys.shape, count))


@_OPAQUE["uniform"].register_fake
def _(keys: Tensor, count: int) -> Tensor:
    return keys.new_empty((*keys.shape, count), dtype=torch.float32)


@_OPAQUE["fold"].register_vmap
def _(info: Any, dims: tuple[int | None, ...], keys: Tensor, data: Tensor | None, number: int) -> tuple[Tensor, int]:
    if data is None:
        return torch.ops.askew.fold(_lead(keys, dims[0], keys.ndim - 1), None, number), 0
    rank = max(keys.ndim - (dims[0] is not None), data.ndim - (dims[1] is not None))
    return torch.ops.askew.fold(_lead(keys, dims[0], rank), _lead(data, dims[1], rank), number), 0


def _lead(v: Tensor, dim: int | None, rank: int) -> Tensor:
    """The batch axis in front of `rank` others, or no batch axis."""
    if dim is None:
        return v
    v = v.movedim(dim, 0)
    return v.view(len(v), *[1] * (rank + 1 - v.ndim), *v.shape[1:])


def _draw_rule(name: str) -> Callable[..., tuple[Tensor, int]]:
    def rule(info: Any, dims: tuple[int | None, ...], keys: Tensor, count: int) -> tuple[Tensor, int]:
        return getattr(torch.ops.askew, name)(_lead(keys, dims[0], keys.ndim - 1), count), 0

    return rule


for _name in ("bits", "uniform"):
    _OPAQUE[_name].register_vmap(_draw_rule(_name))
