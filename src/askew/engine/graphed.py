"""The batched step for GPUs: fixed buffers, a compiled network, CUDA graphs that are replayed.

A local step reads all it needs from device memory (which examples, which step, which rates), so that the host only
says "again": three times a round where that is short and all clients take as many steps, to make ready what the steps
begin with, to take them, and to see how far they have led. Gathering and augmenting, the network with its backward
pass, and the optimiser's step are compiled (`torch.compile`): for one number of clients where it stays the same, else
once for any number.
"""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core import rng
from askew.core.cohort import squared_lengths
from askew.core.compat import compiler_settings, foreach_copy_, mark_dynamic, tree_leaves, tree_map
from askew.core.errors import first_line
from askew.core.preprocess import Preprocess
from askew.core.tensors import Params, Tree
from askew.engine.batched import Network, local_losses
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.kernels.conv import KERNEL_ORDER
from askew.engine.local import AUGMENT, LAYERS, STEP
from askew.engine.shortage import shortage
from askew.engine.tuning import IDLE, WHOLE

PRECISIONS = ("fp32", "tf32", "bf16")
TRIED = 2  # clients whose gradients are also taken without what was compiled
# Compiled forms of one function that are kept; beyond its limit `torch.compile` silently compiles no more.
_VARIANTS = 256

# Of a local step: clients, batch, whether some stand idle, whether batches are padded.
Form = tuple[int, int, bool, bool]


@dataclass
class Buffers:
    """Device memory that a graph reads and writes: one set for each shape of work."""

    params: Params
    low: Params  # weights as the matrix units take them, kept beside the fp32 ones where precision is bf16
    start: Params
    buffers: Params
    kept: Tree  # what the clients remember
    facts: Facts
    state: Tree
    examples: Tensor
    counts: Tensor
    streams: Tensor
    round: Tensor
    step: Tensor  # the number of the local step, counted up by the graph itself
    totals: Tensor
    ones: Tensor  # the gradient of the sum of all losses
    rates: dict[Any, Tensor]
    augment: Tensor  # [K, T, B] keys of the examples' random changes; like the next two made for all steps at once
    drop: Tensor  # [K, T] keys of dropout
    noise: Tensor  # [K, T] keys of the step's own noise
    squares: Tensor  # [K, tensors] squared lengths of the updates
    applies: dict[Form, Callable[..., None]] = field(default_factory=dict)  # the optimiser's step, compiled


# (form, number of steps) -> these steps; and what comes before and after all steps.
Graphs = dict[Any, Callable[[], None]]


class GraphedSteps:
    """Runs the local steps of a chunk.

    Args:
        network: stacked network.
        x, y: the training examples on the device.
        losses: of the objective, one number per example.
        prepare: preprocessing.
        precision: "fp32"; "tf32" for matrix products with 10-bit mantissas; "bf16" for autocast with fp32 weights.
        compiled: compile the network with `torch.compile`.
        exact: the network may look across a batch in ways that we do not know, and must not see padding.
        drops: the network has dropout.
        dense, kernels: names of weights that only matrix products, or only convolutions, use.
        any_number: the network can be compiled for any number of clients at once.
        varies: that number is known to change from round to round.
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor, losses: Callable[[Tensor, Tensor], Tensor],
                 prepare: Preprocess, precision: str, compiled: bool, exact: bool, drops: bool,
                 dense: Collection[str] = (), kernels: Collection[str] = (), any_number: bool = True,
                 varies: bool = False) -> None:
        self.x, self.y, self.prepare, self.precision = x, y, prepare, precision
        self.exact, self.drops, self.compiled, self.any_number = exact, drops, compiled, any_number
        self.dense, self.kernels = frozenset(dense), frozenset(kernels)
        self.device = x.device
        self._plain: tuple[Callable[..., Any], Callable[..., Tensor]] = (self._gather, self._losses(network, losses))
        self._inputs, self._forward = self._compile(self._plain[0]), self._compile(self._plain[1])
        self._fill, self._subtract = self._compile(_fill), self._compile(_subtract)
        self._numbers: set[int] = {0} if varies else set()  # of clients, so far
        # Shape of work -> clients there is room for -> memory.
        self._made: dict[Any, dict[int, tuple[Buffers, Graphs]]] = {}
        self.free()

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.compiled:
            return function
        made = torch.compile(function)

        def call(*args: Any) -> Any:
            with compiler_settings(_VARIANTS):
                return made(*args)

        return call

    def _gather(self, examples: Tensor, counts: Tensor, keys: Tensor | None,
                number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs [K, B, ...], labels [K, B] and counts of real examples [K] of step `number`, of all [K, T, ...]."""
        mine = _at(examples, number)
        x = self.prepare.apply(self.x[mine.flatten()], None if keys is None else _at(keys, number).flatten())
        return x.unflatten(0, mine.shape), self.y[mine], _at(counts, number)

    def _losses(self, network: Network, objective: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
        def losses(x: Tensor, y: Tensor, counts: Tensor, params: Params, buffers: Params, drop: Tensor | None,
                   padded: bool) -> Tensor:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
                scores = network(x, params, buffers, x.shape[0], drop, counts if padded else None)
            return local_losses(scores, y, counts, objective)

        return losses

    def run(self, *work: Any) -> tuple[Params, Params, Tree, Tensor, Tensor]:
        """Train a chunk, as `_run` says; what cannot be compiled is trained uncompiled, with a word about it."""
        try:
            return self._run(*work)
        except Exception as error:  # compilers raise what they like, also in the backward pass
            if not self.compiled or shortage(error) is not None:
                raise
            warnings.warn(f"torch.compile fails for this network ({first_line(error)}); "
                          "it is run as it is, which takes longer", UserWarning, stacklevel=2)
            self.compiled = False
            self._inputs, self._forward = self._plain
            self._fill, self._subtract = _fill, _subtract
            self.free()
            return self._run(*work)

    def free(self) -> None:
        """Give back all memory; graphs that are captured from now on share a new pool: they run one after the other."""
        self._made.clear()
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def _run(self, start: Params, start_buffers: Params, chain: BatchedChain, kept: Tree, facts: Facts,
             examples: Tensor, counts: Tensor, streams: Tensor, round: int, host_counts: np.ndarray,
             steps: list[int]) -> tuple[Params, Params, Tree, Tensor, Tensor]:
        """Train a chunk.

        Args:
            start, start_buffers: [J, ...], or [1, ...] where all start from one model.
            kept: what the clients remember, [J, ...].
            facts: what pieces read of each client.

        Returns:
            updates, buffers and state [J, ...] and summed losses [J], in memory that the next run reuses; squared
            lengths [J, tensors] of the updates.
        """
        clients, batch = len(streams), examples.shape[2]
        shared = all(len(v) == 1 for v in start.values()) and clients > 1
        shape = (batch, shared, tuple(chain.varying), tuple(map(str, chain.specs)),
                 tuple(len(v) == 1 for v in tree_leaves(facts.shared)))
        given = (start, start_buffers, chain, kept, facts, examples, counts, streams)
        mine, graphs = self._memory(shape, *given)
        room = len(mine.streams)
        uneven = len(set(steps)) > 1 or room > clients  # some stand idle
        padded = uneven or (not self.exact and bool((host_counts < batch).any()))
        plan: list[Form] = []
        for t in range(max(steps)):
            active = int(np.searchsorted(-np.asarray(steps), -t))
            size = int(host_counts[:active, t].max())
            plan.append((_bucket(active, room) if uneven else clients, size if self.exact else batch, uneven, padded))
        if sum(form[0] for form in plan) * IDLE > room * len(plan):  # nearly equal: one graph, a few stand idle
            plan = [(room, form[1], uneven, padded) for form in plan]
        self._numbers |= {room, *(form[0] for form in plan)}
        parts = [(form, count) for form, same in itertools.groupby(plan) for count in _parts(len(list(same)), uneven)]
        self._load(mine, *given, round)
        if not graphs:
            graphs["begin"], graphs["end"] = (self._capture(lambda: self._begin(mine, chain)),
                                              self._capture(lambda: self._end(mine)))
        if new := [part for part in dict.fromkeys(parts) if part not in graphs]:
            for form, count in new:
                graphs["begin"]()
                graphs[form, count] = self._capture_steps(mine, chain, form, count)
            self._load(mine, *given, round)  # trials have changed the buffers
        for part in ("begin", *parts, "end"):
            graphs[part]()
        updates, buffers, state = (tree_map(lambda v: v[:clients], tree)
                                   for tree in (mine.params, mine.buffers, mine.state))
        return updates, buffers, state, mine.totals[:clients], mine.squares[:clients].clone()

    def _memory(self, shape: Any, start: Params, start_buffers: Params, chain: BatchedChain, kept: Tree, facts: Facts,
                examples: Tensor, counts: Tensor, streams: Tensor) -> tuple[Buffers, Graphs]:
        """Memory of an earlier chunk of this shape if it is large enough and not wastefully so, else new."""
        clients = len(streams)
        for room in sorted(self._made.get(shape, {})):
            mine, graphs = self._made[shape][room]
            if (clients <= room <= 2 * clients and (clients > 1 or room == 1)
                    and mine.examples.shape[1] >= examples.shape[1]):
                return mine, graphs
        made: tuple[Buffers, Graphs] = (
            self._allocate(start, start_buffers, chain, kept, facts, examples, counts, streams), {})
        self._made.setdefault(shape, {})[clients] = made
        return made

    def _allocate(self, start: Params, start_buffers: Params, chain: BatchedChain, kept: Tree, facts: Facts,
                  examples: Tensor, counts: Tensor, streams: Tensor) -> Buffers:
        clients = len(streams)
        own = {name: _kernels(v, clients) if name in self.kernels else v.new_empty((clients, *v.shape[1:]))
               for name, v in start.items()}
        low = {name: torch.empty_like(v, dtype=torch.bfloat16) for name, v in own.items()
               if name in self.dense | self.kernels} if self.precision == "bf16" else {}
        return Buffers(own, low, {name: torch.empty_like(v) for name, v in start.items()},
                       {name: v.new_empty((clients, *v.shape[1:])) for name, v in start_buffers.items()},
                       tree_map(torch.clone, kept),
                       Facts(**tree_map(torch.clone, facts.numbers), shared=tree_map(torch.clone, facts.shared)),
                       chain.begin(kept, own, start, torch.zeros((), dtype=torch.int64, device=self.device), facts),
                       torch.empty_like(examples), torch.empty_like(counts), torch.empty_like(streams),
                       torch.zeros((), dtype=torch.int64, device=self.device),
                       torch.zeros(1, dtype=torch.int64, device=self.device),
                       torch.zeros(clients, device=self.device), torch.ones(clients, device=self.device),
                       {at: torch.empty_like(v) for at, v in chain.varying.items()},
                       torch.zeros_like(examples) if self.prepare.random else streams,
                       torch.zeros_like(counts) if self.drops else streams,
                       torch.zeros_like(counts) if chain.traits.draws else streams,
                       torch.zeros((clients, len(own)), dtype=torch.float64, device=self.device))

    def _load(self, mine: Buffers, start: Params, start_buffers: Params, chain: BatchedChain, kept: Tree, facts: Facts,
              examples: Tensor, counts: Tensor, streams: Tensor, round: int) -> None:
        """What a run is given, to where the graphs read it."""
        clients = len(streams)
        copies = [(mine.start[name][: len(v)], v) for name, v in start.items()]
        copies += [(mine.buffers[name][:clients], v) for name, v in start_buffers.items()]
        copies += [(mine.rates[at][:clients], v) for at, v in chain.varying.items()]
        copies += [(old[: len(v)], v) for old, v in zip(tree_leaves((mine.kept, mine.facts.numbers, mine.facts.shared)),
                                                        tree_leaves((kept, facts.numbers, facts.shared)), strict=True)]
        foreach_copy_([own for own, _ in copies], [v.expand_as(own) for own, v in copies])
        if clients < len(mine.streams):
            mine.counts.zero_()
        mine.examples[:clients, : examples.shape[1]].copy_(examples)
        mine.counts[:clients, : counts.shape[1]].copy_(counts)
        mine.streams[:clients].copy_(streams)
        mine.round.fill_(round)

    def _begin(self, mine: Buffers, chain: BatchedChain) -> None:
        """All that the first local step finds."""
        weights = [{name: self._mark(v) for name, v in own.items()} for own in (mine.params, mine.low)]
        self._fill(weights, {name: self._mark(v) for name, v in mine.start.items()})
        if tree_leaves(mine.state):
            fresh = chain.rebound(mine.rates, {}).begin(mine.kept, mine.params, mine.start, mine.round, mine.facts)
            tree_map(lambda old, v: old.copy_(v), mine.state, fresh)
        number = torch.arange(mine.counts.shape[1], device=self.device)
        # Keys are made outside of what is compiled (Inductor would multiply them in 32 bits), and not step by step.
        if self.prepare.random:
            keys = rng.fold(rng.fold(mine.streams, AUGMENT)[:, None], number)
            mine.augment.copy_(rng.fold(keys[:, :, None], torch.arange(mine.examples.shape[2], device=self.device)))
        for wanted, role, memory in ((self.drops, LAYERS, mine.drop), (chain.traits.draws, STEP, mine.noise)):
            if wanted:
                memory.copy_(rng.fold(rng.fold(mine.streams, role)[:, None], number))
        mine.step.zero_()
        mine.totals.zero_()

    def _end(self, mine: Buffers) -> None:
        """How far the weights have come from their start, in their place, and the squared lengths of that."""
        with torch.no_grad():
            mine.squares.copy_(self._subtract({name: self._mark(v) for name, v in mine.params.items()},
                                              {name: self._mark(v) for name, v in mine.start.items()}))

    def _capture_steps(self, mine: Buffers, chain: BatchedChain, form: Form, count: int) -> Callable[[], None]:
        """`count` local steps of the first clients with batches of one size, ready to be repeated."""
        clients, _batch, uneven, _ = form
        new = form not in mine.applies
        if new:
            rates = {at: v[:clients] for at, v in mine.rates.items()}
            columns = {at: self._mark(v[:, None]) for at, v in rates.items()}
            mine.applies[form] = self._make_apply(chain.rebound(rates, columns), mine.facts.of_rows(slice(0, clients)),
                                                  uneven)
            if self.compiled:
                self._check_compiled(mine, form)
        apply = mine.applies[form]

        def first() -> None:
            mine.step.zero_()
            self._one_step(mine, chain, apply, form)

        def steps() -> None:
            for _ in range(count):
                self._one_step(mine, chain, apply, form)

        return self._capture(steps, first, 3 if new else 1)

    def _capture(self, work: Callable[[], None], trial: Callable[[], None] | None = None,
                 trials: int = 1) -> Callable[[], None]:
        """Work on fixed memory, ready to be repeated; tried before: to compile, and so that libraries choose."""
        if self.device.type != "cuda":
            return work
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(trials):
                (trial or work)()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self._pool):
            work()
        return graph.replay

    def _make_apply(self, chain: BatchedChain, facts: Facts, uneven: bool) -> Callable[..., None]:
        """Gradients -> weights and optimiser state, in place; compiled where the maths is elementwise."""

        def apply(params: Params, low: Params, gradients: Params, state: Tree, start: Params, round: Tensor,
                  keys: Tensor, number: Tensor, counts: Tensor) -> None:
            wide = {name: v.to(torch.promote_types(v.dtype, torch.float32)) for name, v in gradients.items()}
            u, new = chain.update(wide, state, params, start, round, keys, number[0], facts)
            if uneven:  # a client that has finished stands still, whatever its last batch would make of it
                going = counts > 0
                u = {name: torch.where(going.view(-1, *[1] * (v.ndim - 1)), v, 0.0) for name, v in u.items()}
                new = tree_map(lambda v, old: torch.where(going.view(-1, *[1] * (v.ndim - 1)), v, old), new, state)
            for name, v in params.items():
                v += u[name]
            for name, v in low.items():
                v.copy_(params[name])
            tree_map(lambda old, v: old.copy_(v), state, new)

        return self._compile(apply) if chain.traits.elementwise else apply

    def _one_step(self, mine: Buffers, chain: BatchedChain, apply: Callable[..., None], form: Form) -> None:
        clients = form[0]
        losses, gradients, counts = self._gradients(mine, form, self._inputs, self._forward)
        with torch.no_grad():
            params, low, state, streams = (self._first(v, clients)
                                           for v in (mine.params, mine.low, mine.state, mine.streams))
            noise = self._mark(_at(mine.noise[:clients], mine.step)) if chain.traits.draws else streams
            mine.totals[:clients] += losses
            start = {name: v if len(v) == 1 else self._mark(v[:clients]) for name, v in mine.start.items()}
            apply(params, low, tree_map(self._mark, gradients), state, start, mine.round, noise, mine.step, counts)
            mine.step += 1

    def _gradients(self, mine: Buffers, form: Form, gather: Callable[..., Any],
                   forward: Callable[..., Tensor]) -> tuple[Tensor, Params, Tensor]:
        """The first clients' losses in the step that they have come to, gradients, and how many examples are real."""
        clients, batch, _, padded = form
        keys = self._mark(mine.augment[:clients, :, :batch]) if self.prepare.random else None
        drop = self._mark(_at(mine.drop[:clients], mine.step)) if self.drops else None
        x, y, counts = gather(self._mark(mine.examples[:clients, :, :batch]), self._first(mine.counts, clients), keys,
                              mine.step)
        x, y, counts = self._mark(x), self._mark(y), self._mark(counts)
        leaves = {name: v.requires_grad_() for name, v in self._first({**mine.params, **mine.low}, clients).items()}
        losses = forward(x, y, counts, leaves, self._first(mine.buffers, clients), drop, padded)
        # Compiled, one launch less; uncompiled, torch would first import a library of algebra to look at the sizes.
        total, given = (losses, mine.ones[:clients]) if self.compiled else (losses.sum(), None)
        gradients = torch.autograd.grad(total, list(leaves.values()), given, allow_unused=True, materialize_grads=True)
        return losses.detach(), dict(zip(leaves, gradients, strict=True)), counts

    def _check_compiled(self, mine: Buffers, form: Form) -> None:
        """Compilers err: the first step's gradients of some clients must be what they are
        uncompiled. Gross errors, not rounding."""
        few = min(TRIED, form[0])
        found = {name: v[:few].float()
                 for name, v in self._gradients(mine, form, self._inputs, self._forward)[1].items()}
        wanted = {name: v.float() for name, v in self._gradients(mine, (few, *form[1:]), *self._plain)[1].items()}
        whole = torch.stack([v.norm() for v in wanted.values()]).norm()
        for name, v in wanted.items():
            if whole.isfinite() and not (found[name] - v).norm() <= 0.5 * v.norm() + 0.02 * whole:
                warnings.warn(f"torch.compile makes wrong gradients of this network (of {name}); "
                              "it is run as it is, which takes longer", RuntimeWarning, stacklevel=2)
                self._inputs, self._forward = self._plain
                return

    def _first(self, tree: Any, clients: int) -> Any:
        """The memory of the clients that take part."""
        return tree_map(lambda v: self._mark(v[:clients]), tree)

    def _mark(self, v: Tensor) -> Tensor:
        """The same memory; its first axis, the clients, of any length where more than one length is needed."""
        v = v.detach()
        if self.compiled and self.any_number and len(self._numbers) > 1 and len(v) > 1:
            mark_dynamic(v, 0)
        return v


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """What an engine leaves behind must not be freed while a graph is captured: CUDA gives that up then."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _at(steps: Tensor, number: Tensor) -> Tensor:
    """[K, T, ...] -> [K, ...]: what the step that the device has come to needs."""
    return steps.index_select(1, number)[:, 0]


def _parts(steps: int, uneven: bool) -> list[int]:
    """Equal steps, cut into pieces that a graph is made of.

    The whole round where it is short; else, and where lengths change from round to round, powers of two, so that there
    are few graphs.

    Example:
        >>> _parts(10, False), _parts(22, True)
        ([10], [16, 4, 2])
    """
    if not uneven and steps <= WHOLE:
        return [steps]
    return [WHOLE] * (steps // WHOLE) + [size for size in (8, 4, 2, 1) if steps % WHOLE & size]


def _fill(memories: list[Params], start: Params) -> None:
    for own in memories:
        for name, v in own.items():
            v.copy_(start[name].expand_as(v))


def _subtract(params: Params, start: Params) -> Tensor:
    for name, v in params.items():
        v -= start[name]
    return squared_lengths(params)


def _kernels(like: Tensor, clients: int) -> Tensor:
    """Memory for convolutions' weights [K, O, C, R, S], in the order in which `client_conv2d`'s kernels read them."""
    shape = (clients, *like.shape[1:])
    back = [KERNEL_ORDER.index(axis) for axis in range(len(shape))]
    return like.new_empty([shape[axis] for axis in KERNEL_ORDER]).permute(back)


def _bucket(active: int, room: int) -> int:
    """The smallest of K, K/2, K/4, ..., down to 4, that holds all active clients: few graphs, at most half idle."""
    size = room
    while (size + 1) // 2 >= max(active, 4):  # the step of a few clients costs what launching its kernels costs
        size = (size + 1) // 2
    return size
