"""The batched step for GPUs: memory in fixed places, a compiled network, CUDA graphs that are replayed.

A local step reads all it needs from device memory (which examples, which step, which rates), so the host only starts
it. A round takes three calls of the host where it is short and all clients take as many steps: the first makes ready
what the steps begin with, the second takes them all, the third turns weights into updates. Gathering and augmenting,
the network with its backward pass, and the optimiser's step are compiled (`torch.compile`): for one number of clients
where it stays the same, else once for any number.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core import rng
from askew.core.cohort import squared_lengths
from askew.core.compat import compiler_settings, mark_dynamic, tree_leaves, tree_map
from askew.core.errors import first_line
from askew.core.tensors import Params, Tree, form_of
from askew.engine.batched import Network, local_losses
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.local import AUGMENT, LAYERS, STEP
from askew.engine.shortage import shortage
from askew.engine.step_plan import Form, plan_steps
from askew.engine.task import Task
from askew.engine.work import TrainedWork, Work
from askew.engine.workspace import Workspace, make_workspace

PRECISIONS = ("fp32", "tf32", "bf16")
TRIED = 2  # clients whose gradients are also taken without what was compiled
# Compiled forms of one function that are kept; beyond its limit `torch.compile` silently compiles no more.
_VARIANTS = 256

# "begin", "end", or (form, number of steps) -> that work on a workspace, to be repeated.
Graphs = dict[Any, Callable[[], None]]


@dataclass(frozen=True)
class GraphedNetwork:
    """A network for many clients at once, and what its steps must know of it.

    Args:
        network: on stacked weights.
        stacked: its layers have a client axis: it can be compiled for any number of clients, and leaves padding out of
            its sums. Else it may look across a batch in ways that we do not know, and must see no padding.
        drops: it has dropout.
        matrices, kernels: names of weights that only matrix products, or only convolutions, use.
    """

    network: Network
    stacked: bool
    drops: bool
    matrices: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()


class GraphedSteps:
    """Runs the local steps of a chunk.

    Args:
        task: the run; in a sweep, the first of them.
        network: the network of all clients.
        precision: "fp32"; "tf32" for matrix products with 10-bit mantissas; "bf16" for autocast with fp32 weights.
        compiled: compile the network with `torch.compile`.
    """

    def __init__(self, task: Task, network: GraphedNetwork, precision: str, compiled: bool) -> None:
        self.x, self.y, self.prepare = task.examples.x, task.examples.y, task.prepare
        self.network, self.precision, self.compiled, self.device = network, precision, compiled, self.x.device
        self._plain: tuple[Callable[..., Any], Callable[..., Tensor]] = (
            self._gather, self._losses(network.network, task.objective.losses))
        self._inputs, self._forward = self._compile(self._plain[0]), self._compile(self._plain[1])
        self._fill, self._subtract = self._compile(_fill), self._compile(_subtract)
        # How many clients have trained at once so far; with 0 where this is known to change from round to round.
        self._numbers = {0} if task.pool.needs_validation or any(a.reason for a in task.adversities) else set[int]()
        self._workspaces: dict[Any, dict[int, tuple[Workspace, Graphs]]] = {}  # shape of work -> room for clients ->
        self.free()

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.compiled:
            return function
        compiled = torch.compile(function)

        def call(*args: Any) -> Any:
            with compiler_settings(_VARIANTS):
                return compiled(*args)

        return call

    def _gather(self, examples: Tensor, counts: Tensor, keys: Tensor | None,
                number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs [K, B, ...], labels [K, B] and counts of real examples [K] of step `number`, of all [K, T, ...]."""
        indices = _at(examples, number)
        x = self.prepare.apply(self.x[indices.flatten()], None if keys is None else _at(keys, number).flatten())
        return x.unflatten(0, indices.shape), self.y[indices], _at(counts, number)

    def _losses(self, network: Network, objective: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
        def losses(x: Tensor, y: Tensor, counts: Tensor, params: Params, buffers: Params, drop: Tensor | None,
                   padded: bool) -> Tensor:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
                scores = network(x, params, buffers, x.shape[0], drop, counts if padded else None)
            return local_losses(scores, y, counts, objective)

        return losses

    def run(self, work: Work, batch_sizes: np.ndarray) -> TrainedWork:
        """Train a chunk; a network that cannot be compiled is trained uncompiled, with a warning.

        Args:
            batch_sizes: as `Work.batch_sizes` says.

        Returns:
            What the chunk has become, in memory that the next run reuses (squared lengths excepted).
        """
        try:
            return self._run(work, batch_sizes)
        except Exception as error:  # compilers raise errors of any type, also in the backward pass
            if not self.compiled or shortage(error) is not None:
                raise
            warnings.warn(f"torch.compile fails for this network ({first_line(error)}); "
                          "it is run as it is, which takes longer", UserWarning, stacklevel=2)
            self.compiled = False
            self._inputs, self._forward = self._plain
            self._fill, self._subtract = _fill, _subtract
            self.free()
            return self._run(work, batch_sizes)

    def free(self) -> None:
        """Give back all memory; graphs captured from now on share a new pool, since they run one after the other."""
        self._workspaces.clear()
        self._graph_pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def _run(self, work: Work, batch_sizes: np.ndarray) -> TrainedWork:
        space, graphs = self._workspace(work)
        plan = plan_steps(work.schedule.steps, batch_sizes, work.schedule.examples.shape[2], space.room,
                          exact=not self.network.stacked)
        self._numbers |= {space.room, *(form.clients for form, _ in plan)}
        space.load(work)
        if self._capture_missing(space, graphs, work.chain, plan):
            space.load(work)  # trials have changed it
        for part in ("begin", *plan, "end"):
            graphs[part]()
        clients = len(work.streams)
        updates, buffers, state = (tree_map(lambda v: v[:clients], tree)
                                   for tree in (space.params, space.buffers, space.state))
        return TrainedWork(updates, buffers, state, work.per_step(space.totals[:clients]),
                           space.squares[:clients].clone())

    def _workspace(self, work: Work) -> tuple[Workspace, Graphs]:
        """The smallest of earlier chunks of this shape that holds this one, with its graphs; else a new one."""
        shared_start = len(work.streams) > 1 and all(len(v) == 1 for v in work.start.values())
        shape = (work.schedule.examples.shape[2], shared_start, tuple(work.chain.varying),
                 tuple(map(str, work.chain.specs)), tuple(len(v) == 1 for v in tree_leaves(work.facts.shared)))
        known, clients, network = self._workspaces.setdefault(shape, {}), len(work.streams), self.network
        for room in sorted(known):
            if known[room][0].holds(work):
                return known[room]
        low = network.matrices | network.kernels if self.precision == "bf16" else frozenset[str]()
        known[clients] = make_workspace(work, low, network.kernels, self.prepare.random, network.drops), {}
        return known[clients]

    def _capture_missing(self, space: Workspace, graphs: Graphs, chain: BatchedChain,
                         plan: Sequence[tuple[Form, int]]) -> bool:
        """Capture what of the plan has no graph yet; whether steps were among it."""
        if not graphs:
            graphs["begin"], graphs["end"] = (self._capture(lambda: self._begin(space, chain)),
                                              self._capture(lambda: self._end(space)))
        missing = [part for part in dict.fromkeys(plan) if part not in graphs]
        for form, count in missing:
            graphs["begin"]()
            graphs[form, count] = self._capture_steps(space, chain, form, count)
        return bool(missing)

    def _begin(self, space: Workspace, chain: BatchedChain) -> None:
        """Make all that the first local step reads."""
        weights = [{name: self._mark(v) for name, v in copies.items()} for copies in (space.params, space.low)]
        self._fill(weights, {name: self._mark(v) for name, v in space.start.items()})
        if tree_leaves(space.state):
            fresh = chain.rebound(space.varying, {}).begin(space.kept, space.params, space.start, space.round,
                                                           space.facts)
            tree_map(lambda old, v: old.copy_(v), space.state, fresh)
        # Keys of all steps at once, and outside of what is compiled: Inductor would multiply them in 32 bits.
        number = torch.arange(space.counts.shape[1], device=self.device)
        if self.prepare.random:
            keys = rng.fold(rng.fold(space.streams, AUGMENT)[:, None], number)
            space.augment_keys.copy_(rng.fold(keys[:, :, None],
                                              torch.arange(space.examples.shape[2], device=self.device)))
        for wanted, role, keys in ((self.network.drops, LAYERS, space.drop_keys),
                                   (chain.traits.draws, STEP, space.noise_keys)):
            if wanted:
                keys.copy_(rng.fold(rng.fold(space.streams, role)[:, None], number))
        space.step.zero_()
        space.totals.zero_()

    def _end(self, space: Workspace) -> None:
        """Turn weights into updates, in place, and take the squares of their lengths."""
        with torch.no_grad():
            space.squares.copy_(self._subtract({name: self._mark(v) for name, v in space.params.items()},
                                               {name: self._mark(v) for name, v in space.start.items()}))

    def _capture_steps(self, space: Workspace, chain: BatchedChain, form: Form, count: int) -> Callable[[], None]:
        """`count` local steps of one form, ready to be repeated."""
        new = form not in space.applies
        if new:
            values = {at: v[: form.clients] for at, v in space.varying.items()}
            columns = {at: self._mark(v[:, None]) for at, v in values.items()}
            space.applies[form] = self._make_apply(chain.rebound(values, columns),
                                                   space.facts.of_rows(slice(0, form.clients)), form.uneven)
            if self.compiled:
                self._check_compiled(space, form)
        apply = space.applies[form]

        def first() -> None:
            space.step.zero_()
            self._one_step(space, chain, apply, form)

        def steps() -> None:
            for _ in range(count):
                self._one_step(space, chain, apply, form)

        return self._capture(steps, first, 3 if new else 1)

    def _capture(self, work: Callable[[], None], trial: Callable[[], None] | None = None,
                 trials: int = 1) -> Callable[[], None]:
        """Work on fixed memory, ready to be repeated.

        It is tried before it is captured: compilers compile, and libraries choose their kernels, at the first calls.
        """
        if self.device.type != "cuda":
            return work
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(trials):
                (trial or work)()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self._graph_pool):
            work()
        return graph.replay

    def _make_apply(self, chain: BatchedChain, facts: Facts, uneven: bool) -> Callable[..., None]:
        """Gradients -> weights and optimiser state, in place; compiled where the maths is elementwise."""

        def apply(params: Params, low: Params, gradients: Params, state: Tree, start: Params, round: Tensor,
                  keys: Tensor, number: Tensor, counts: Tensor) -> None:
            wide = {name: v.to(params[name].dtype) for name, v in gradients.items()}  # of copies in bf16, too
            given = tree_map(torch.clone, state) if uneven and chain.traits.writes else state
            u, new = chain.update(wide, given, params, start, round, keys, number[0], facts)
            if uneven:  # a client that has finished stands still, whatever its last batch would make of it
                going = counts > 0
                u = {name: torch.where(going.view(-1, *[1] * (v.ndim - 1)), v, 0.0) for name, v in u.items()}
                new = tree_map(lambda v, old: torch.where(going.view(-1, *[1] * (v.ndim - 1)), v, old), new, state)
            if chain.traits.aliases:
                new = tree_map(torch.clone, new)
            for name, v in params.items():
                v += u[name]
            for name, v in low.items():
                v.copy_(params[name])
            tree_map(_overwrite, state, new)

        return self._compile(apply) if chain.traits.elementwise else apply

    def _one_step(self, space: Workspace, chain: BatchedChain, apply: Callable[..., None], form: Form) -> None:
        clients = form.clients
        losses, gradients, counts = self._gradients(space, form, self._inputs, self._forward)
        with torch.no_grad():
            params, low, state, streams = (self._first(tree, clients)
                                           for tree in (space.params, space.low, space.state, space.streams))
            noise = self._mark(_at(space.noise_keys[:clients], space.step)) if chain.traits.draws else streams
            space.totals[:clients] += losses
            start = {name: v if len(v) == 1 else self._mark(v[:clients]) for name, v in space.start.items()}
            apply(params, low, tree_map(self._mark, gradients), state, start, space.round, noise, space.step, counts)
            space.step += 1

    def _gradients(self, space: Workspace, form: Form, gather: Callable[..., Any],
                   forward: Callable[..., Tensor]) -> tuple[Tensor, Params, Tensor]:
        """Losses and gradients of the form's clients at the step `space.step`, and how many examples are real."""
        clients, batch, _, padded = form
        keys = self._mark(space.augment_keys[:clients, :, :batch]) if self.prepare.random else None
        drop = self._mark(_at(space.drop_keys[:clients], space.step)) if self.network.drops else None
        x, y, counts = gather(self._mark(space.examples[:clients, :, :batch]), self._first(space.counts, clients), keys,
                              space.step)
        x, y, counts = self._mark(x), self._mark(y), self._mark(counts)
        leaves = {name: v.requires_grad_() for name, v in self._first({**space.params, **space.low}, clients).items()}
        losses = forward(x, y, counts, leaves, self._first(space.buffers, clients), drop, padded)
        # Compiled, ones save the launch of a sum; uncompiled, torch would import sympy to compare their shape.
        total, ones = (losses, space.ones[:clients]) if self.compiled else (losses.sum(), None)
        gradients = torch.autograd.grad(total, list(leaves.values()), ones, allow_unused=True, materialize_grads=True)
        return losses.detach(), dict(zip(leaves, gradients, strict=True)), counts

    def _check_compiled(self, space: Workspace, form: Form) -> None:
        """Compilers err: compare the first step's gradients of some clients, compiled and not.

        The bounds are for gross errors, such as a gradient that is lost, not for rounding.
        """
        few = min(TRIED, form.clients)
        compiled = {name: v[:few].float()
                    for name, v in self._gradients(space, form, self._inputs, self._forward)[1].items()}
        plain = {name: v.float()
                 for name, v in self._gradients(space, form._replace(clients=few), *self._plain)[1].items()}
        length = torch.stack([v.norm() for v in plain.values()]).norm()
        for name, v in plain.items():
            if length.isfinite() and not (compiled[name] - v).norm() <= 0.5 * v.norm() + 0.02 * length:
                warnings.warn(f"torch.compile makes wrong gradients of this network (of {name}); "
                              "it is run as it is, which takes longer", RuntimeWarning, stacklevel=2)
                self._inputs, self._forward = self._plain
                return

    def _first(self, tree: Any, clients: int) -> Any:
        """The rows of the first clients."""
        return tree_map(lambda v: self._mark(v[:clients]), tree)

    def _mark(self, v: Tensor) -> Tensor:
        """The same memory; where several numbers of clients occur, compilers are told that the first axis varies."""
        v = v.detach()
        if self.compiled and self.network.stacked and len(self._numbers) > 1 and len(v) > 1:
            mark_dynamic(v, 0)
        return v


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """CUDA gives up a capture during which memory is freed, as the collector might do with an earlier engine's."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _at(steps: Tensor, number: Tensor) -> Tensor:
    """[K, T, ...] -> [K, ...]: of all steps, the one whose number [1] lies on the device."""
    return steps.index_select(1, number)[:, 0]


def _overwrite(old: Tensor, new: Tensor) -> None:
    """State in its fixed place, which holds one type and shape."""
    if old.dtype != new.dtype or old.shape != new.shape:
        raise ValueError(f"a state of {form_of(old)} becomes one of {form_of(new)}")
    old.copy_(new)


def _fill(copies: list[Params], start: Params) -> None:
    for params in copies:
        for name, v in params.items():
            v.copy_(start[name].expand_as(v))


def _subtract(params: Params, start: Params) -> Tensor:
    for name, v in params.items():
        v -= start[name]
    return squared_lengths(params)
