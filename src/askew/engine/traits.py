"""What an engine has to know of a client chain, found out by running it once on a few numbers.

A piece holds its maths and nothing for engines. Whether that maths acts on each coordinate by itself (so that tensors with
a client axis in front need no `vmap`), and what of the context it reads, shows in the operations that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from askew.core import rng
from askew.core.client_piece import ClientChain, ClientContext, Message
from askew.core.compat import TorchDispatchMode, tree_leaves, tree_map
from askew.core.tensors import ModelState, Tree

# Operations that make or copy tensors, whatever their shape.
_HARMLESS = frozenset({"zeros_like", "ones_like", "full_like", "empty_like", "clone", "detach", "_to_copy", "lift_fresh", "alias", "copy_",
                       "scalar_tensor"})
_REDUCING = ("_foreach_norm", "_foreach_max")
_OF_ONE_CLIENT = frozenset({"client", "examples", "steps", "shared", "key"})  # numbers per client that would have to be spread over tensors


@dataclass(frozen=True)
class Traits:
    """Of a chain.

    Args:
        elementwise: `update` acts on each coordinate by itself, and so does its state.
        reads: what `begin`, `update` and `end` read of the context.
        draws: whether `update` draws random numbers.
    """

    elementwise: bool
    reads: frozenset[str]
    draws: bool


def traits_of(chain: ClientChain, params: Mapping[str, Tensor], shared: Mapping[str, Tree] | None = None) -> Traits:
    """Run a chain once, on small tensors with the names and the numbers of axes of a model's.

    Args:
        shared: what the server sends beside the model, by name; of it only names and the numbers of axes count.
    """
    small = {name: _small(v) for name, v in params.items()}
    reads: set[str] = set()

    def context() -> ClientContext:
        return _Watched(dict(small), dict(small), 0, 0, 2, 0, 3, tree_map(_small, dict(shared or {})),
                        lambda: rng.key(0, "traits"), reads)

    with torch.no_grad():
        kept = chain.keep(ModelState(small))
        state = chain.begin(kept, context())
        shapes = {v.shape for v in small.values()}
        like_params = all(v.shape in shapes for v in tree_leaves(state)) and all(v.ndim for v in small.values())
        before, watch = set(reads), _Pointwise()
        reads.clear()
        with watch:
            _, state = chain.update(dict(small), state, context())
        during = set(reads)
        message: Message = {"update": dict(small), "buffers": {}}
        chain.end(message, state, kept, context())
    return Traits(like_params and watch.only and not during & _OF_ONE_CLIENT, frozenset(before | during | reads), "key" in during)


def _small(v: Tensor) -> Tensor:
    """Ones, with as many axes."""
    return torch.ones([min(2, size) for size in v.shape], dtype=v.dtype)


class _Watched(ClientContext):
    """A context that takes down what is read of it."""

    def __init__(self, *fields: Any) -> None:
        *given, reads = fields
        super().__init__(*given)
        object.__setattr__(self, "_reads", reads)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "make_key":
            object.__getattribute__(self, "__dict__").get("_reads", set()).add(name)
        return object.__getattribute__(self, name)


class _Pointwise(TorchDispatchMode):
    """Whether all operations act on each coordinate by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.only = True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        pointwise = torch.Tag.pointwise in function.tags or name in _HARMLESS or (
            name.startswith("_foreach_") and name not in _REDUCING)
        self.only = self.only and pointwise
        return function(*args, **(kwargs or {}))
