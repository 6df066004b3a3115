"""Models as named tensors, and the little arithmetic that pieces share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from askew.core.compat import foreach_add, foreach_mul, foreach_sub, is_batched, tree_leaves, tree_map
from askew.core.errors import shown

Params = dict[str, Tensor]
Tree = Any  # nested dicts and tuples of tensors, so that a checkpoint can hold it and vmap can batch it


@dataclass(frozen=True)
class ModelState:
    """Weights and buffers of one model."""

    params: Params
    buffers: Params = field(default_factory=dict)


def add(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    """a + b, tensor by tensor."""
    if _one_by_one(a) or _one_by_one(b):
        return {name: a[name] + b[name] for name in a}
    return dict(zip(a, foreach_add(list(a.values()), [b[name] for name in a]), strict=True))


def subtract(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    """a - b, tensor by tensor."""
    if _one_by_one(a) or _one_by_one(b):
        return {name: a[name] - b[name] for name in a}
    return dict(zip(a, foreach_sub(list(a.values()), [b[name] for name in a]), strict=True))


def times(a: Mapping[str, Tensor], factor: float | Tensor) -> Params:
    """factor a, tensor by tensor."""
    if isinstance(factor, Tensor) or _one_by_one(a):
        return {name: factor * v for name, v in a.items()}
    return dict(zip(a, foreach_mul(list(a.values()), factor), strict=True))


def _one_by_one(a: Mapping[str, Tensor]) -> bool:
    """Whether many tensors cannot go in one launch: `torch.func.vmap` has no rule for that, and a
    compiler does better by itself."""
    return not a or torch.compiler.is_compiling() or any(is_batched(v) for v in a.values())


def apart(tree: Tree, taken: Set[int]) -> Tree:
    """The tree; with copies of what lies in memory that is about to be written over."""
    return tree_map(lambda v: v.clone() if place_of(v) in taken else v, tree) if _touches(tree, taken) else tree


def places_in(*trees: Tree) -> set[int]:
    """The memory in which tensors lie."""
    return {place_of(v) for tree in trees for v in tree_leaves(tree)} - {0}


def place_of(v: Any) -> int:
    """Where a tensor's memory begins; 0: it has none."""
    return v.untyped_storage().data_ptr() if isinstance(v, Tensor) and not is_batched(v) else 0


def _touches(tree: Tree, taken: Set[int]) -> bool:
    """Asked at every local step: 2 us for four tensors, where torch's own way through a tree takes 6."""
    if isinstance(tree, Tensor):
        return place_of(tree) in taken
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple | list) else ()
    for part in parts:  # noqa: SIM110 - `any` of a generator takes longer
        if _touches(part, taken):
            return True
    return False


def zeros_like(params: Mapping[str, Tensor]) -> Params:
    """A model of zeros."""
    return {name: torch.zeros_like(v) for name, v in params.items()}


def with_numbers(tree: Tree, beside: Callable[[], Mapping[str, Tensor]]) -> Tree:
    """The tree with its plain numbers as tensors: what one client counts in numbers (`ctx.steps`) is a tensor where
    many are trained at once.

    Args:
        beside: gives tensors on the device where they are to lie; asked only where there are numbers, since engines
            watch what is read.

    Example:
        >>> with_numbers({"steps": 3, "part": 0.5}, lambda: {"w": torch.zeros(2)})
        {'steps': tensor(3), 'part': tensor(0.5000)}
    """
    def tensor(v: Any) -> Any:
        return torch.tensor(v, device=next(iter(beside().values())).device) if isinstance(v, int | float) else v

    return tree_map(tensor, tree)


def form_of(v: Any) -> str:
    """Type and shape in words.

    Example:
        >>> form_of(torch.zeros(2, 3)), form_of(0.5)
        ('float32 [2, 3]', '0.5')
    """
    return f"{str(v.dtype).removeprefix('torch.')} {list(v.shape)}" if isinstance(v, Tensor) else shown(v)


def norm(u: Mapping[str, Tensor]) -> Tensor:
    """The L2 norm over all tensors together."""
    return torch.cat([v.flatten() for v in u.values()]).square().sum().sqrt()


def num_bytes(tensors: Mapping[str, Tensor]) -> int:
    """What the tensors take uncompressed."""
    return sum(v.numel() * v.element_size() for v in tensors.values())
