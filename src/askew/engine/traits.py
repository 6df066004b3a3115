"""What an engine has to know of a client chain, found out by running it once on a few numbers.

A piece holds its maths and nothing for engines. Whether that maths acts on each coordinate by itself (so that tensors
with a client axis in front need no `vmap`), and what of the context it reads, shows in the operations that it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from askew.core import rng
from askew.core.client_piece import ClientChain, ClientContext, Message
from askew.core.compat import TorchDispatchMode, times_written, tree_leaves, tree_map
from askew.core.tensors import ModelState, Params, Tree, place_of

# Operations that make or copy tensors, whatever their shape.
MAKING = frozenset({"zeros_like", "ones_like", "full_like", "empty_like", "clone", "detach", "_to_copy",
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
        aliases: after a step, a part of its state may share memory with another part, with what it was in another
            place before, or with what the step was given: an engine that writes states in place has to copy it first.
        writes: a step changes its state in place: an engine that lets a client stand still there has to give it a copy.
        looks_up: what it looks for in a table (`{0: 0.1}.get(ctx.step)`), where no tensor is found.
    """

    elementwise: bool
    reads: frozenset[str]
    draws: bool
    at_steps: frozenset[str] = frozenset()
    aliases: bool = False
    writes: bool = False
    looks_up: frozenset[str] = frozenset()


# Of a chain that cannot be tried on small tensors, or that branches on the round: the most careful answer.
_EVERYTHING = frozenset({"params", "start", "round", "step", "steps", "client", "examples", "shared", "key"})
_CAREFUL = Traits(False, _EVERYTHING, True, _EVERYTHING, True, True)


def traits_of(chain: ClientChain, params: Mapping[str, Tensor], shared: Mapping[str, Tree] | None = None) -> Traits:
    """Run a chain once, on small tensors with the names and the numbers of axes of a model's.

    Args:
        shared: what the server sends beside the model, by name; of it only names and the numbers of axes count.
    """
    looked_up: set[str] = set()

    def tried(sized: Callable[[Tensor], Tensor]) -> Traits:
        small, sent = tree_map(sized, (dict(params), dict(shared or {})))
        return _tried(chain, small, sent, looked_up)

    try:
        traits = tried(_small)
    except Exception:  # it may want tensors of their true sizes; what is wrong with it shows when it trains
        traits = _CAREFUL
        with contextlib.suppress(Exception):  # what it looks up does not
            tried(lambda v: torch.ones(v.shape, dtype=v.dtype))
    return replace(traits, looks_up=frozenset(looked_up))


def _tried(chain: ClientChain, small: Params, shared: Mapping[str, Tree], looked_up: set[str]) -> Traits:
    reads: set[str] = set()
    params, start = (tree_map(torch.clone, small) for _ in range(2))  # each in memory of its own, which shows
    # Tensors: a piece that branches on their values looks at them, which shows.
    number = _numbers(looked_up)
    round, first_step, steps, *who = (number(name, value) for name, value in {
        "round": 0, "step": 0, "steps": 2, "client": 0, "examples": 3}.items())

    def context(step: Tensor = first_step) -> ClientContext:
        return _Watched(dict(params), dict(start), round, step, steps, *who, shared, lambda: rng.key(0, "traits"),
                        reads)

    with torch.no_grad(), _Watch() as before:
        kept = chain.keep(ModelState(small))
        first = chain.begin(kept, context())
    shapes = {v.shape for v in small.values()}
    first = tree_map(torch.clone, first)  # each part in memory of its own, as engines have it
    like_params = all(v.shape in shapes for v in tree_leaves(first)) and all(v.ndim for v in small.values())
    at_begin = set(reads)
    reads.clear()
    untouched = [times_written(v) for v in tree_leaves(first)]
    with torch.no_grad(), _Watch() as during:
        _, state = chain.update(dict(small), first, context())
    writes = untouched != [times_written(v) for v in tree_leaves(first)]
    with torch.no_grad():  # what the first step alone would not show
        chain.update(dict(small), tree_map(torch.clone, state), context(step=number("step", 1)))
    at_steps = frozenset(reads)
    message: Message = {"update": dict(small), "buffers": {}}
    with torch.no_grad(), _Watch() as after:
        chain.end(message, state, kept, context(step=steps))
    if before.looks or during.looks or after.looks:
        return _CAREFUL
    elementwise = (like_params and during.pointwise and not during.measures and not at_steps & _OF_ONE_CLIENT
                   and _broadcasts(chain, small))
    # Small tensors, or a client axis in front, may have led a piece that asks for sizes another way.
    at_steps = _EVERYTHING if during.measures else at_steps
    reads_all = before.measures or during.measures or after.measures
    return Traits(elementwise, _EVERYTHING if reads_all else frozenset(at_begin | at_steps | reads),
                  "key" in at_steps, at_steps,
                  before.measures or during.measures or _aliases((params, start, shared), first, state),
                  writes or during.measures)


def _aliases(given: Tree, before: Tree, after: Tree) -> bool:
    """Whether a part of the state after a step lies in memory that is not its own."""
    taken, old, new = ([place_of(v) for v in tree_leaves(tree)] for tree in (given, before, after))
    return any(where in taken or new.count(where) > 1 or (where in old and (at >= len(old) or old[at] != where))
               for at, where in enumerate(new) if where)


def _numbers(looked_up: set[str]) -> Callable[[str, int], Tensor]:
    """(name, value) -> a number of the context that takes down its name when a table is asked for it, or for what is
    made of it, and when either is put in words."""

    class Number(Tensor):
        names: frozenset[str] = frozenset()

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = super().__torch_function__(function, types, args, kwargs or {})
            if isinstance(made, Number):
                made.names = made.names.union(*(v.names for v in tree_leaves((args, kwargs)) if isinstance(v, Number)))
            return made

        def __hash__(self) -> int:
            looked_up.update(self.names)
            return super().__hash__()

        def __str__(self) -> str:
            looked_up.update(self.names)
            return super().__str__()

    def number(name: str, value: int) -> Tensor:
        made = torch.tensor(value).as_subclass(Number)
        made.names = frozenset({name})
        return made

    return number


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


class Operations(TorchDispatchMode):
    """Which operations are done, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        whole = isinstance(made, Tensor) and not made.is_floating_point()
        rounds = whole or (kwargs or {}).get("rounding_mode")
        self.names.add("rounded" if rounds else function.overloadpacket.__name__)
        return made


class _Watch(TorchFunctionMode):
    """What is done.

    Attributes:
        pointwise: all operations act on each coordinate by itself, and on tensors of one shape: with a client axis in
            front, tensors of several shapes would not broadcast against each other.
        looks: the value of a tensor is asked for.
        measures: the size of a tensor is.
    """

    SIZES = frozenset({Tensor.numel, Tensor.nelement, Tensor.size, Tensor.__len__, torch.numel,
                       Tensor.shape.__get__})  # type: ignore[attr-defined]

    def __init__(self) -> None:
        super().__init__()
        self.pointwise, self.looks, self.measures = True, False, False
        self._operations = _Kinds(self)

    def __enter__(self) -> _Watch:
        self._operations.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._operations.__exit__(*error)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.measures = self.measures or function in self.SIZES
        return function(*args, **(kwargs or {}))


class _Kinds(TorchDispatchMode):
    """The operations of a watch."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, watch = function.overloadpacket.__name__, self.watch
        by_coordinate = torch.Tag.pointwise in function.tags or name in MAKING or (
            name.startswith("_foreach_") and name not in _REDUCING)
        watch.pointwise = watch.pointwise and by_coordinate and _of_one_shape(args)
        watch.looks = watch.looks or name == "_local_scalar_dense"
        return function(*args, **(kwargs or {}))


def _of_one_shape(args: Any) -> bool:
    """Whether the tensors that meet in an operation, numbers aside, have the same shape."""
    lists = [a for a in args if isinstance(a, list | tuple)]
    meetings = zip(*lists, strict=False) if lists else [args]
    return all(len({v.shape for v in meeting if isinstance(v, Tensor) and v.ndim}) < 2 for meeting in meetings)
