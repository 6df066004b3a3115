"""All clients of a round as one batched computation on stacked weights.

Jobs are sorted by their number of local steps and trained in chunks that memory bounds. Within a chunk, step t is
done by those jobs that still have one: a prefix of the stack, so nobody is padded to the largest client. A client's
result does not depend on who shares its chunk: it has its own weights, optimiser state, buffers, batches and streams.
"""

from __future__ import annotations

import gc
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from askew.core import rng
from askew.core.client_piece import Message
from askew.core.cohort import squared_lengths
from askew.core.compat import BatchNorm, foreach_add_, foreach_sub_, tree_map
from askew.core.errors import AskewError, first_line, suggest
from askew.core.registry import numbers_of
from askew.core.tensors import Params, Tree, add
from askew.engine.batched import local_losses
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.graphed import PRECISIONS, GraphedNetwork, GraphedSteps
from askew.engine.layers.dropout import dropouts
from askew.engine.layout import Layout, Planner
from askew.engine.local import AUGMENT, LAYERS, STEP, UPLOAD
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.schedule import on_device
from askew.engine.sequential import train_job
from askew.engine.shortage import does_not_fit, fitting, shortage
from askew.engine.step_plan import active_clients
from askew.engine.task import Task
from askew.engine.tuning import CHUNK_BYTES, CHUNK_JOBS, COMPILED_EXAMPLES
from askew.engine.work import TrainedWork, Work

EVERYONE = slice(None)  # the clients of a step where none is missing


class Vectorised:
    """The batched engine.

    Raises `CannotBatch` at construction where the network cannot be batched.

    Args:
        task: the run; in a sweep, the first of them.
        chunk_jobs: train at most so many clients at once; by default as many as fit a memory bound.
        precision: "fp32", "tf32" or "bf16" (autocast over fp32 weights).
        graphed: fixed buffers and CUDA graphs; by default on GPUs.
        compiled: compile the network; by default on GPUs, where the run is long enough (`worth_compiling`).
        runs: that will train together.
    """

    name = "vectorised"
    one_at_a_time = False
    batches_lanes = True
    peers = None

    def __init__(self, task: Task, chunk_jobs: int | None = None, precision: str = "fp32", graphed: bool | None = None,
                 compiled: bool | None = None, runs: int = 1) -> None:
        if precision not in PRECISIONS:
            raise AskewError(f"unknown precision {precision!r}; {suggest(precision, PRECISIONS)}")
        self.task = task
        self.precision = precision
        with matrix_precision("fp32", task.device):
            self.network, self.kind = task.batched
        # BatchNorm, or a `forward` that only vmap can batch, may look across a batch, and must not see padding there.
        self._exact_batches = self.kind == "vmap" or any(
            isinstance(layer, BatchNorm) for layer in task.module.modules())
        self._drops = bool(dropouts(task.module))
        weights = sum(p.numel() * p.element_size() for p in task.module.parameters())
        bound = max(1, CHUNK_BYTES.get(task.device.type, CHUNK_BYTES["cuda"]) // max(1, 6 * weights))
        self.chunk_jobs = chunk_jobs or min(CHUNK_JOBS.get(task.device.type, CHUNK_JOBS["cuda"]), bound)
        on_gpu, self._stacked = task.device.type == "cuda", self.kind == "stacked layers"
        self.compiled = on_gpu and worth_compiling(task, runs) if compiled is None else compiled
        self._one_by_one = False  # nothing else works for this network
        matrices, kernels = (_weights_of(task.module, kind) if self._stacked else frozenset[str]()
                             for kind in (nn.Linear, nn.Conv2d))
        self._steps = GraphedSteps(
            task, GraphedNetwork(self.network, self._stacked, self._drops, matrices, kernels), precision, self.compiled,
        ) if (on_gpu if graphed is None else graphed) else None
        self._chains: dict[Any, BatchedChain] = {}  # to build one takes as long as a step of a small network
        self._planner = Planner(task.recipe, task.device, self.chunk_jobs)

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        parts = deque(self._planner.parts(lanes))
        while parts:
            jobs = parts.popleft()
            if self._one_by_one:
                yield from _trained_alone(lanes, jobs)
                continue
            try:
                chunks = self._trained(lanes, jobs)
            except Exception as error:  # network, pieces and libraries may raise anything: another way may work
                asked, line = shortage(error), first_line(error)
            else:
                yield from chunks
                del chunks  # the next ones need the memory
                continue
            # Outside of `except`: the error's frames are gone, which held the attempt's memory. Nothing was yielded.
            if asked is None:
                self._do_without(line)
                parts.appendleft(jobs)
            elif len(jobs) > 1:
                self._take_fewer(len(jobs), asked)
                parts = deque(self._planner.parts(lanes, [*jobs, *(job for part in parts for job in part)]))
            else:
                raise does_not_fit(f"engine vectorised: client {jobs[0][1].client} alone", self.task, asked)

    def _trained(self, lanes: Sequence[Lane], jobs: list[tuple[int, Job]]) -> list[tuple[int, Chunk]]:
        work = self._begin(lanes, self._planner.lay_out(lanes, jobs))
        with matrix_precision(self.precision, self.task.device):
            trained = self._run(work)
        return list(self._chunks(work, *self._ended(work, trained)))

    def _do_without(self, problem: str) -> None:
        """Train the next chunk in a plainer way: without graphs, then one client after the other."""
        plainer = "without CUDA graphs" if self._steps is not None else "one client after the other"
        warnings.warn(f"engine vectorised: network and pieces cannot be trained as asked ({problem}); "
                      f"the run goes on {plainer}, which takes longer", UserWarning, stacklevel=2)
        self._one_by_one = self._steps is None
        self._steps = None

    def _take_fewer(self, clients: int, asked: str) -> None:
        """Halve the chunk for the rest of the run; give back what the failed attempt and graphs of its size held."""
        fewer = self.chunk_jobs = self._planner.chunk_jobs = clients // 2
        warnings.warn(f"engine vectorised: {clients} clients at once do not fit the memory of the device; {fewer} at a "
                      f"time from now on ({asked} more was asked for)", UserWarning, stacklevel=2)
        if self._steps is not None:
            self._steps.free()
        gc.collect()
        if self.task.device.type == "cuda":
            torch.cuda.empty_cache()

    def _begin(self, lanes: Sequence[Lane], layout: Layout) -> Work:
        device, jobs = self.task.device, layout.jobs
        used = list(dict.fromkeys((i, job.model) for i, job in jobs))
        models = [lanes[i].models[number] for i, number in used]
        if len(used) == 1:
            start = {name: v[None] for name, v in models[0].params.items()}
            buffers = {name: v[None] for name, v in models[0].buffers.items()}
        else:
            row = {at: i for i, at in enumerate(used)}
            which = on_device([row[i, job.model] for i, job in jobs], device)
            start = {name: torch.stack([m.params[name] for m in models])[which] for name in models[0].params}
            buffers = {name: torch.stack([m.buffers[name] for m in models])[which] for name in models[0].buffers}
        chain = self._chain(lanes, jobs)
        kept = self._kept(lanes, jobs, chain)
        if chain.plain.enters:
            start, buffers = tree_map(lambda v: v.expand(len(jobs), *v.shape[1:]), (start, buffers))
            start, buffers = chain.enter(start, buffers, kept)
        return Work(jobs, layout.schedule, layout.streams, layout.sizes, start, buffers, chain,
                    self._facts(lanes, layout, chain), kept, lanes[0].round)

    def _chain(self, lanes: Sequence[Lane], jobs: list[tuple[int, Job]]) -> BatchedChain:
        """The pieces of all lanes' jobs; arguments in which the lanes differ become one value per job."""
        specs = [lane.task.recipe.client for lane in lanes]
        varying: dict[tuple[int, str], Tensor] = {}
        for at, piece in enumerate(specs[0]):
            numbers = [numbers_of(pieces[at]) for pieces in specs]
            for path, value in numbers_of(piece).items():
                if any(lane[path] != value for lane in numbers):
                    varying[at, path] = on_device([numbers[i][path] for i, _ in jobs], self.task.device)
        shared, key = _first_of(lanes[0].shared), (tuple(map(str, specs[0])), tuple(varying))
        if key not in self._chains:
            self._chains[key] = BatchedChain(specs[0], self.task.fresh.params, varying, shared)
        return self._chains[key].with_values(varying) if varying else self._chains[key]

    def _kept(self, lanes: Sequence[Lane], jobs: list[tuple[int, Job]], chain: BatchedChain) -> Tree:
        """What the jobs' clients remember, [J, ...]."""
        if not lanes[0].memory:
            lane, job = jobs[0]
            first = chain.plain.keep(lanes[lane].models[job.model])
            return tree_map(lambda v: v.expand(len(jobs), *v.shape).clone(), first)
        parts = []
        for (i, model), same in groupby(jobs, key=lambda at: (at[0], at[1].model)):
            memory = lanes[i].memory
            assert memory is not None, "the lanes' chains are alike"
            parts.append(memory.rows(model, [job.client for _, job in same]))
        return parts[0] if len(parts) == 1 else tree_map(lambda *rows: torch.cat(rows), *parts)

    def _facts(self, lanes: Sequence[Lane], layout: Layout, chain: BatchedChain) -> Facts:
        """What the pieces read of each client, and no more: a copy to a device takes its time."""
        jobs, reads, device = layout.jobs, chain.traits.reads, self.task.device
        numbers = {"client": [job.client for _, job in jobs], "examples": layout.sizes, "steps": layout.schedule.steps}
        if "step" in reads:  # at the end it is the number of all steps
            reads = reads | {"steps"}
        given = {name: on_device(values, device) for name, values in numbers.items() if name in reads}
        used = list(dict.fromkeys((i, job.model) for i, job in jobs))
        shared: Tree = {}
        if "shared" in reads:
            trees = [lanes[i].shared.get(model, {}) for i, model in used]
            row = {at: k for k, at in enumerate(used)}
            which = on_device([row[i, job.model] for i, job in jobs], device)
            shared = (tree_map(lambda v: v[None], trees[0]) if len(used) == 1
                      else tree_map(lambda *v: torch.stack(v)[which], *trees))
        return Facts(**given, shared=shared)

    def _run(self, work: Work) -> TrainedWork:
        """All local steps."""
        steps, device = work.schedule.steps, self.task.device
        batch_sizes = work.batch_sizes(self.task.recipe.batch_size)
        even = len(set(steps)) == 1 and all((row == row.max()).all() for row in batch_sizes.T)
        # Graphs have fixed shapes: unequal clients have padding there, which some networks must not see.
        looked_up = work.chain.traits.looks_up
        if looked_up - {"round", "step"}:
            raise ValueError(f"a piece looks for the {min(looked_up - {'round', 'step'})} in a table, which are "
                             "many clients' at once")
        if self._steps is not None and looked_up:
            self._do_without("a piece looks for the round or the step in a table")
        if self._steps is not None and (even or self._stacked):
            return self._steps.run(work, batch_sizes)
        params, buffers = ({name: v.expand(len(steps), *v.shape[1:]).clone() for name, v in given.items()}
                           for given in (work.start, work.start_buffers))
        state = work.chain.begin(work.kept, params, work.start, work.round, work.facts)
        totals = torch.zeros(len(steps), device=device)
        for t in range(max(steps)):
            active = active_clients(steps, t)
            sizes = batch_sizes[:active, t]
            if not self._exact_batches or (sizes == sizes[0]).all():
                who = EVERYONE if active == len(steps) else slice(0, active)
                state = self._step(work, params, buffers, state, totals, who, t, int(sizes.max()))
            else:  # no padding: clients with equally large batches go together
                for size in np.unique(sizes):
                    some = torch.from_numpy(np.flatnonzero(sizes == size)).to(device)
                    state = self._step(work, params, buffers, state, totals, some, t, int(size))
        foreach_sub_(list(params.values()), [work.start[name] for name in params])
        return TrainedWork(params, buffers, state, work.per_step(totals), squared_lengths(params))

    def _step(self, work: Work, all_params: Params, all_buffers: Params, state: Tree, totals: Tensor,
              who: slice | Tensor, t: int, batch: int) -> Tree:
        """Step t of the clients `who`; weights, buffers and totals are changed in place."""
        task = self.task
        params = {name: v[who].detach().requires_grad_() for name, v in all_params.items()}
        buffers = {name: v[who] for name, v in all_buffers.items()}
        examples, streams = work.schedule.examples[who, t, :batch], work.streams[who]
        clients = len(streams)
        keys = None
        if task.prepare.random:
            position = torch.arange(batch, device=task.device)
            keys = rng.fold(rng.fold(rng.fold(streams, AUGMENT), t)[:, None], position).flatten()
        x = task.prepare.apply(task.examples.x[examples.flatten()], keys).unflatten(0, (clients, batch))
        y = task.examples.y[examples]
        drop = rng.fold(rng.fold(streams, LAYERS), t) if self._drops else None
        with torch.autocast(task.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            scores = self.network(x, params, buffers, clients, drop, None)
        losses = local_losses(scores, y, work.schedule.counts[who, t], task.objective.losses)
        gradients = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            totals[who] += losses.detach()
            noise = rng.fold(rng.fold(streams, STEP), t) if work.chain.traits.draws else streams
            start = {name: v if len(v) == 1 else v[who] for name, v in work.start.items()}
            before = _take(state, who)
            now = {name: v.detach() for name, v in params.items()}
            # A slice is the first rows, as the step takes them; of others it must be told.
            chain = work.chain if isinstance(who, slice) else work.chain.of_rows(who)
            u, after = chain.update(dict(zip(params, gradients, strict=True)), before, now, start, work.round, noise, t,
                                   work.facts.of_rows(who))
            if chain.traits.aliases:
                after = tree_map(torch.clone, after)
            if isinstance(who, slice):  # in their own memory: `v[who] += u` would write every weight twice
                foreach_add_([v[who] for v in all_params.values()], [u[name] for name in all_params])
            else:
                for name, v in all_params.items():
                    v[who] = now[name] + u[name]  # a `forward` may have changed these (an embedding's `max_norm`)
                for name, v in all_buffers.items():
                    v[who] = buffers[name]
            return _put(state, who, after)

    def _ended(self, work: Work, trained: TrainedWork) -> tuple[Message, Tree, Tensor, Tensor]:
        """What the clients send and what they remember, their losses, and the squared lengths of their updates."""
        message: Message = {"update": trained.updates, "buffers": trained.buffers}
        if not work.chain.plain.ends:
            return message, work.kept, trained.losses, trained.squares
        with torch.no_grad():
            params = add(trained.updates, work.start) if "params" in work.chain.traits.reads else trained.updates
            message, kept = work.chain.end(message, trained.state, work.kept, params, work.start, work.round,
                                           rng.fold(work.streams, UPLOAD), work.facts)
            return message, kept, trained.losses, squared_lengths(message["update"])

    def _chunks(self, work: Work, message: Message, kept: Tree, losses: Tensor,
                squares: Tensor) -> Iterator[tuple[int, Chunk]]:
        lanes = dict.fromkeys(i for i, _ in work.jobs)
        for i in lanes:
            at = [k for k, (lane, _) in enumerate(work.jobs) if lane == i]
            # Equal clients lie lane by lane: a view, no copy.
            pick = slice(at[0], at[-1] + 1) if at[-1] - at[0] + 1 == len(at) else on_device(at, losses.device)
            yield i, Chunk([work.jobs[k][1] for k in at], _take(message, pick), losses[pick],
                           _take(kept, pick), squares[pick], len(lanes))


def worth_compiling(task: Task, runs: int = 1) -> bool:
    """Whether so much is to be trained that the time that compiling takes is won back.

    By the recipe alone, not by a stopwatch: the same run is done the same way again, and so is what is left of it.

    Args:
        runs: that train together.
    """
    recipe = task.recipe
    passes = runs * recipe.rounds * recipe.epochs
    return passes * task.cohort_size * float(task.population.sizes.mean()) >= COMPILED_EXAMPLES


def _trained_alone(lanes: Sequence[Lane], jobs: list[tuple[int, Job]]) -> Iterator[tuple[int, Chunk]]:
    for i, job in jobs:
        lane = lanes[i]
        with fitting(f"engine vectorised: client {job.client} alone", lane.task):
            chunk = train_job(lane, job, lane.task.module)
        yield i, chunk


@contextmanager
def matrix_precision(precision: str, device: torch.device) -> Iterator[None]:
    """TF32 in matrix products and convolutions for "tf32" and "bf16", full fp32 for "fp32"; attention as products.

    torch's fused attention has no rule for a client axis, and on a GPU adds up gradients in an order that changes.
    """
    if device.type != "cuda":
        with sdpa_kernel(SDPBackend.MATH):
            yield
        return
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _weights_of(module: nn.Module, kind: type[nn.Module]) -> frozenset[str]:
    return frozenset(f"{name}.weight" for name, layer in module.named_modules() if type(layer) is kind)


def _first_of(shared: Mapping[int, Mapping[str, Tree]]) -> Mapping[str, Tree]:
    return next(iter(shared.values()), {})


def _take(state: Tree, who: slice | Tensor) -> Tree:
    return state if who is EVERYONE else tree_map(lambda v: v[who], state)


def _put(state: Tree, who: slice | Tensor, new: Tree) -> Tree:
    if who is EVERYONE:
        return new

    def put(old: Tensor, rows: Tensor) -> Tensor:
        if old.shape[1:] != rows.shape[1:]:  # torch might take one number of each client for an axis
            raise ValueError(f"a state of {list(old.shape[1:])} becomes one of {list(rows.shape[1:])}")
        old = old.contiguous() if 0 in old.stride() else old  # one number for all clients so far
        old = old.to(torch.promote_types(old.dtype, rows.dtype))  # whole numbers that become fractions
        old[who] = rows
        return old

    return tree_map(put, state, new)
