"""What an engine has to know of a client chain, found out by running it once on a few numbers.

A piece holds its maths and nothing for engines. Whether that maths acts on each coordinate by itself (so that tensors
with a client axis in front need no `vmap`), and what of the context it reads, shows in the operations that it does.
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
from askew.core.tensors import ModelState, Params, Tree

# Operations that make or copy tensors, whatever their shape.
_HARMLESS = frozenset({"zeros_like", "ones_like", "full_like", "empty_like", "clone", "detach", "_to_copy",
                       "lift_fresh", "alias", "copy_", "scalar_tensor"})
_REDUCING = ("_foreach_norm", "_foreach_max")
# Read by elementwise maths, these would have to be broadcast along the client axis.
_OF_ONE_CLIENT = frozenset({"client", "examples", "steps", "shared", "key"})


@dataclass(frozen=True)
class Traits:
    """Of a chain.

    Args:
        elementwise: `update` acts on each coordinate by itself, and so does its state.
        reads: what `begin`, `update` and `end` read of the context.
        draws: whether `update` draws random numbers.
        at_steps: what `update` reads of the context.
    """

    elementwise: bool
    reads: frozenset[str]
    draws: bool
    at_steps: frozenset[str] = frozenset()


# Of a chain that cannot be tried on small tensors, or that branches on the round: the most careful answer.
_CAREFUL = Traits(False, frozenset({"params", "start", "round", "step", "steps", "client", "examples", "shared",
                                    "key"}), True)


def traits_of(chain: ClientChain, params: Mapping[str, Tensor], shared: Mapping[str, Tree] | None = None) -> Traits:
    """Run a chain once, on small tensors with the names and the numbers of axes of a model's.

    Args:
        shared: what the server sends beside the model, by name; of it only names and the numbers of axes count.
    """
    try:
        return _tried(chain, {name: _small(v) for name, v in params.items()}, tree_map(_small, dict(shared or {})))
    except Exception:  # it may want tensors of their true sizes; what is wrong with it shows when it trains
        return _CAREFUL


def _tried(chain: ClientChain, small: Params, shared: Mapping[str, Tree]) -> Traits:
    reads: set[str] = set()

    def context() -> ClientContext:
        # Tensors as round and step: a piece that branches on their values looks at them, which shows.
        return _Watched(dict(small), dict(small), torch.tensor(0), torch.tensor(0), 2, 0, 3, shared,
                        lambda: rng.key(0, "traits"), reads)

    with torch.no_grad(), _Watch() as before:
        kept = chain.keep(ModelState(small))
        state = chain.begin(kept, context())
    shapes = {v.shape for v in small.values()}
    like_params = all(v.shape in shapes for v in tree_leaves(state)) and all(v.ndim for v in small.values())
    at_begin = set(reads)
    reads.clear()
    with torch.no_grad(), _Watch() as during:
        _, state = chain.update(dict(small), state, context())
    at_steps = set(reads)
    message: Message = {"update": dict(small), "buffers": {}}
    with torch.no_grad(), _Watch() as after:
        chain.end(message, state, kept, context())
    if before.looks or during.looks or after.looks:
        return _CAREFUL
    elementwise = like_params and during.pointwise and not at_steps & _OF_ONE_CLIENT and _broadcasts(chain, small)
    return Traits(elementwise, frozenset(at_begin | at_steps | reads), "key" in at_steps, frozenset(at_steps))


def _broadcasts(chain: ClientChain, small: Params) -> bool:
    """Whether clients in one tensor, in its own shape or flat, get what each gets alone: pieces may look at shapes."""
    generator = torch.Generator().manual_seed(0)
    u, params, start = ({name: torch.rand(3, *v.shape, generator=generator).to(v.dtype) for name, v in small.items()}
                        for _ in range(3))

    def stepped(u: Params, params: Params, start: Params) -> Params:
        ctx = ClientContext(params, start, torch.tensor(1), torch.tensor(1))
        return chain.update(u, chain.begin(chain.keep(ModelState(start)), ctx), ctx)[0]

    with torch.no_grad():
        alone = [stepped(*(tree_map(lambda v, k=k: v[k], tree) for tree in (u, params, start))) for k in range(3)]
        stacked = stepped(u, params, start)
        flat = stepped(*(tree_map(lambda v: v.flatten(1), tree) for tree in (u, params, start)))
    return all(torch.allclose(stacked[name][k], v) and torch.allclose(flat[name][k].view(v.shape), v)
               for k in range(3) for name, v in alone[k].items())


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


class _Watch(TorchDispatchMode):
    """Which operations are done.

    Attributes:
        pointwise: all act on each coordinate by itself, and on tensors of one shape: with a client axis in
            front, tensors of several shapes would not broadcast against each other.
        looks: the value of a tensor is asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pointwise, self.looks = True, False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        by_coordinate = torch.Tag.pointwise in function.tags or name in _HARMLESS or (
            name.startswith("_foreach_") and name not in _REDUCING)
        self.pointwise = self.pointwise and by_coordinate and _of_one_shape(args)
        self.looks = self.looks or name == "_local_scalar_dense"
        return function(*args, **(kwargs or {}))


def _of_one_shape(args: Any) -> bool:
    """Whether the tensors that meet in an operation, numbers aside, have the same shape."""
    lists = [a for a in args if isinstance(a, list | tuple)]
    meetings = zip(*lists, strict=False) if lists else [args]
    return all(len({v.shape for v in meeting if isinstance(v, Tensor) and v.ndim}) < 2 for meeting in meetings)
