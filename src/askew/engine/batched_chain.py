"""Client pieces for many clients at once, on stacked tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from askew.core import registry
from askew.core.client_piece import ClientChain, ClientContext, Message
from askew.core.compat import tree_leaves, tree_map
from askew.core.registry import Spec
from askew.core.tensors import ModelState, Params, Tree, with_numbers
from askew.engine.traits import Traits, traits_of

# What elementwise chains do not read: with None one that did would fail, not compute with a wrong number.
_UNREAD: dict[str, Any] = {"client": None, "examples": None, "steps": None}


@dataclass(frozen=True)
class Facts:
    """What pieces may read of each of K clients: [K] each, or None where none of them reads it.

    Args:
        shared: what the server sent beside the model, [K, ...], or [1, ...] where all have the same.
    """

    client: Tensor | None = None
    examples: Tensor | None = None
    steps: Tensor | None = None
    shared: Tree = field(default_factory=dict)

    def of_rows(self, rows: slice | Tensor) -> Facts:
        """The same for some of the clients only."""
        if not self.shared and not self.numbers:
            return self
        return Facts(**{name: v[rows] for name, v in self.numbers.items()},
                     shared=tree_map(lambda v: v if len(v) == 1 else v[rows], self.shared))

    @property
    def numbers(self) -> dict[str, Tensor]:
        """Those that are read, by name."""
        return {name: v for name in ("client", "examples", "steps") if (v := getattr(self, name)) is not None}


class BatchedChain:
    """A client chain for K clients at once, with hyper-parameters that may differ between them.

    Args:
        specs: the pieces.
        like: a model, for names and numbers of axes.
        varying: for piece i and argument a, values [K]; other arguments are as in the specs.
        shared: what the server sends beside the model, for names and numbers of axes.
    """

    def __init__(self, specs: Sequence[Spec], like: Mapping[str, Tensor],
                 varying: Mapping[tuple[int, str], Tensor] | None = None,
                 shared: Mapping[str, Tree] | None = None) -> None:
        self.specs, self.like, self.varying, self.shared = list(specs), like, dict(varying or {}), shared
        self.plain = ClientChain([registry.build("client", spec) for spec in specs])
        self._columns: dict[int, ClientChain] = {}
        self._all_columns: ClientChain | None = None

    @cached_property
    def traits(self) -> Traits:
        """Found with the first client's values of the varying arguments: an argument may decide on them."""
        return traits_of(self._built({at: v[0].cpu() for at, v in self.varying.items()}), self.like, self.shared)

    def of_rows(self, rows: Tensor) -> BatchedChain:
        """The same chain for some of the clients only."""
        return self.with_values({at: v[rows] for at, v in self.varying.items()}) if self.varying else self

    def rebound(self, varying: Mapping[tuple[int, str], Tensor],
                columns: Mapping[tuple[int, str], Tensor]) -> BatchedChain:
        """The same chain with its varying arguments in other memory, [K] and as columns [K, 1], for just K clients."""
        chain = self.with_values(varying)
        chain._all_columns = chain._built(columns)
        return chain

    def with_values(self, varying: Mapping[tuple[int, str], Tensor]) -> BatchedChain:
        """The same chain with other values in its varying arguments."""
        chain = BatchedChain(self.specs, self.like, varying, self.shared)
        chain.__dict__["traits"] = self.traits
        return chain

    def enter(self, params: Params, buffers: Params, kept: Tree) -> tuple[Params, Params]:
        """Weights and buffers that the clients' rounds begin with, [K, ...]."""

        def one(params: Params, buffers: Params, kept: Tree, values: Any) -> tuple[Params, Params]:
            model = self._built(values).enter(ModelState(params, buffers), kept)
            return model.params, model.buffers

        return torch.func.vmap(one)(params, buffers, kept, self._values(len(next(iter(params.values())))))

    def begin(self, kept: Tree, params: Params, start: Params, round: int | Tensor, facts: Facts) -> Tree:
        """The state before the first step, [K, ...]; an argument may decide on it."""
        clients = len(next(iter(params.values())))

        def one(kept: Tree, params: Params, values: Any, ctx: _Given) -> Tree:
            return self._built(values).begin(kept, ctx.context(params, round))

        state = self._vmapped(one, clients, start, facts)(kept, params, self._values(clients))
        return tree_map(torch.clone, state)  # it may share the weights' memory, or be one number for all clients

    def update(self, u: Params, state: Tree, params: Params, start: Params, round: int | Tensor, keys: Tensor,
               step: int | Tensor, facts: Facts) -> tuple[Params, Tree]:
        """All tensors are stacked over clients; `start` may have a client axis of size 1."""
        if self.traits.elementwise:
            return self._broadcast(u, state, params, start, round, step, len(keys))
        clients = len(keys)

        def one(u: Params, state: Tree, params: Params, key: Tensor, values: Any, ctx: _Given) -> tuple[Params, Tree]:
            u, state = self._built(values).update(
                u, state, ctx.context(params, round, step, key if self.traits.draws else None))
            # One number for a whole tensor is each coordinate's, as where one client's weights are added to: never one
            # of each client for the last axis of all.
            whole = {name: u[name] if u[name].shape == v.shape else u[name].expand_as(v) for name, v in params.items()}
            return whole, with_numbers(state, lambda: params)

        return self._vmapped(one, clients, start, facts)(u, state, params, keys, self._values(clients))

    def end(self, message: Message, state: Tree, kept: Tree, params: Params, start: Params, round: int | Tensor,
            keys: Tensor, facts: Facts) -> tuple[Message, Tree]:
        """What the clients send and what they remember, [K, ...]."""
        clients = len(keys)

        def one(message: Message, state: Tree, kept: Tree, params: Params, key: Tensor, values: Any,
                ctx: _Given) -> tuple[Message, Tree]:
            return self._built(values).end(message, state, kept, ctx.context(params, round, ctx.steps, key))

        return self._vmapped(one, clients, start, facts)(message, state, kept, params, keys, self._values(clients))

    def _values(self, clients: int) -> dict[tuple[int, str], Tensor]:
        return {at: v[:clients] for at, v in self.varying.items()}

    def _vmapped(self, one: Callable[..., Any], clients: int, start: Params, facts: Facts) -> Callable[..., Any]:
        """`one` for each client; start and what the server sent may be the same for all."""
        common = {"start": start, "shared": facts.shared}
        lone = {name: clients > 1 and all(len(v) == 1 for v in tree_leaves(tree)) for name, tree in common.items()}
        given = {name: tree_map(lambda v: v[0], tree) if lone[name] else tree for name, tree in common.items()}
        numbers = {name: v[:clients] for name, v in facts.numbers.items()}

        def call(*args: Any) -> Any:
            def with_context(args: Any, start: Params, shared: Tree, numbers: dict[str, Tensor]) -> Any:
                return one(*args, _Given(start, shared, numbers))

            in_dims = (0, *(None if lone[name] else 0 for name in ("start", "shared")), 0)
            return torch.func.vmap(with_context, in_dims=in_dims)(args, given["start"], given["shared"], numbers)

        return call

    def _broadcast(self, u: Params, state: Tree, params: Params, start: Params, round: int | Tensor, step: int | Tensor,
                   clients: int) -> tuple[Params, Tree]:
        if not self.varying:
            return self.plain.update(u, state, ClientContext(params, start, round, step, **_UNREAD))
        columns = self._all_columns
        if columns is None:
            if clients not in self._columns:  # one value per row
                self._columns[clients] = self._built({at: v[:clients, None] for at, v in self.varying.items()})
            columns = self._columns[clients]
        flat = [tree_map(lambda v: v.flatten(1), tree) for tree in (u, state, params, start)]
        new_u, new_state = columns.update(flat[0], flat[1], ClientContext(flat[2], flat[3], round, step, **_UNREAD))
        shaped = {name: v.view(params[name].shape) for name, v in new_u.items()}
        return shaped, tree_map(lambda v, old: v.view(old.shape), new_state, state)

    def _built(self, values: Mapping[tuple[int, str], Tensor]) -> ClientChain:
        if not values:
            return self.plain
        pieces = []
        for i, spec in enumerate(self.specs):
            changed = {name: v for (j, name), v in values.items() if j == i}
            pieces.append(registry.build("client", registry.with_numbers(spec, changed)))
        return ClientChain(pieces)


@dataclass(frozen=True)
class _Given:
    """What of one client's context does not change within its round."""

    start: Params
    shared: Mapping[str, Tree]
    numbers: Mapping[str, Tensor]

    @property
    def steps(self) -> Tensor | int:
        return self.numbers.get("steps", 0)

    def context(self, params: Params, round: int | Tensor, step: int | Tensor = 0,
                key: Tensor | None = None) -> ClientContext:
        make_key = None if key is None else lambda: key
        return ClientContext(params, self.start, round, step, shared=self.shared, make_key=make_key,
                             **{**_UNREAD, **self.numbers})
