"""The batched step for GPUs: fixed buffers, a compiled network, one CUDA graph that is replayed for every local step.

A local step reads all it needs from device memory (which examples, which step, which rates), so that the host only
says "again". The network and its backward pass are compiled (`torch.compile`); the rest is captured as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from askew.core import rng
from askew.core.preprocess import Preprocess
from askew.core.transform import Params, State
from askew.simulate.batched import BatchedStep, Network, local_losses
from askew.simulate.local import AUGMENT, LAYERS, STEP

PRECISIONS = ("fp32", "tf32", "bf16")


@dataclass
class Buffers:
    """Device memory that a graph reads and writes: one set for each shape of work."""

    params: Params
    start: Params
    buffers: Params
    state: State
    examples: Tensor
    counts: Tensor
    streams: Tensor
    round: Tensor
    step: Tensor  # the number of the local step, counted up by the graph itself
    totals: Tensor
    rates: dict[Any, Tensor]


class GraphedSteps:
    """Runs the local steps of a chunk.

    Args:
        network: stacked network.
        x, y: the training examples on the device.
        prepare: preprocessing.
        precision: "fp32"; "tf32" for matrix products with 10-bit mantissas; "bf16" for autocast with fp32 weights.
        compiled: compile the network with `torch.compile`.
        exact: the network has BatchNorm, which must not see padding.
        drops: the network has dropout.
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor, prepare: Preprocess, precision: str, compiled: bool,
                 exact: bool, drops: bool) -> None:
        self.x, self.y, self.prepare, self.precision = x, y, prepare, precision
        self.exact, self.drops, self.compiled = exact, drops, compiled
        self.device = x.device
        self._forward: Callable[..., Tensor] = torch.compile(self._losses(network), dynamic=False) if compiled else self._losses(network)
        self._inputs: Callable[..., Tensor] = torch.compile(prepare.apply, dynamic=False) if compiled else prepare.apply
        self._made: dict[Any, tuple[Buffers, dict[tuple[int, int], Callable[[], None]]]] = {}

    def _losses(self, network: Network) -> Callable[..., Tensor]:
        def losses(x: Tensor, y: Tensor, counts: Tensor, params: Params, buffers: Params, clients: int, drop: Tensor | None) -> Tensor:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
                scores = network(x, params, buffers, clients, drop)
            return local_losses(scores, y, counts)

        return losses

    def run(self, start: Params, start_buffers: Params, step: BatchedStep, examples: Tensor, counts: Tensor, streams: Tensor,
            round: int, host_counts: np.ndarray, steps: list[int]) -> tuple[Params, Params, Tensor]:
        """Train a chunk; returns weights, buffers and summed losses, in memory that the next run reuses.

        Args:
            start, start_buffers: [J, ...], or [1, ...] where all start from one model.
        """
        clients, batch = len(streams), examples.shape[2]
        shared = all(len(v) == 1 for v in start.values()) and clients > 1
        uneven = len(set(steps)) > 1
        key = (clients, batch, shared, uneven, tuple(step.varying), tuple(map(str, step.specs)))
        if key not in self._made or self._made[key][0].examples.shape[1] < examples.shape[1]:
            self._made[key] = (self._allocate(start, start_buffers, step, examples, counts, streams), {})
        mine, graphs = self._made[key]
        plan = []
        for t in range(max(steps)):
            active = int(np.searchsorted(-np.asarray(steps), -t))
            size = int(host_counts[:active, t].max())
            plan.append((_bucket(active, clients) if uneven else clients, size if self.exact else batch))
        for shape in dict.fromkeys(plan):
            if shape not in graphs:
                self._load(mine, start, start_buffers, step, examples, counts, streams, round)
                graphs[shape] = self._capture(mine, step, *shape, uneven)
        self._load(mine, start, start_buffers, step, examples, counts, streams, round)
        for shape in plan:
            graphs[shape]()
        return mine.params, mine.buffers, mine.totals

    def _allocate(self, start: Params, start_buffers: Params, step: BatchedStep, examples: Tensor, counts: Tensor,
                  streams: Tensor) -> Buffers:
        clients = len(streams)
        own = {name: v.new_empty((clients, *v.shape[1:])) for name, v in start.items()}
        return Buffers(own, {name: torch.empty_like(v) for name, v in start.items()},
                       {name: v.new_empty((clients, *v.shape[1:])) for name, v in start_buffers.items()}, step.init(own),
                       torch.empty_like(examples), torch.empty_like(counts), torch.empty_like(streams),
                       torch.zeros((), dtype=torch.int64, device=self.device), torch.zeros(1, dtype=torch.int64, device=self.device),
                       torch.zeros(clients, device=self.device), {at: torch.empty_like(v) for at, v in step.varying.items()})

    def _load(self, mine: Buffers, start: Params, start_buffers: Params, step: BatchedStep, examples: Tensor, counts: Tensor,
              streams: Tensor, round: int) -> None:
        for own, given in ((mine.params, start), (mine.start, start), (mine.buffers, start_buffers)):
            for name, v in own.items():
                v.copy_(given[name])
        for at, v in mine.rates.items():
            v.copy_(step.varying[at])
        pytree.tree_map_(torch.Tensor.zero_, mine.state)
        mine.examples[:, : examples.shape[1]].copy_(examples)
        mine.counts[:, : counts.shape[1]].copy_(counts)
        mine.streams.copy_(streams)
        mine.round.fill_(round)
        mine.step.zero_()
        mine.totals.zero_()

    def _capture(self, mine: Buffers, step: BatchedStep, clients: int, batch: int, uneven: bool) -> Callable[[], None]:
        """One local step of the first `clients` with batches of `batch`, ready to be repeated."""
        apply = self._make_apply(step.rebound(dict(mine.rates)), uneven)

        def one() -> None:
            self._one_step(mine, step, apply, clients, batch)

        if self.device.type != "cuda":
            return one
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # compile, and let libraries choose their algorithms, outside the capture
                mine.step.zero_()
                one()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        mine.step.zero_()
        with torch.cuda.graph(graph):
            one()
        return graph.replay

    def _make_apply(self, step: BatchedStep, uneven: bool) -> Callable[..., None]:
        """Gradients -> weights and optimiser state, in place; compiled where the maths is elementwise."""

        def apply(params: Params, gradients: Params, state: State, start: Params, round: Tensor, noise: Tensor, number: Tensor,
                  counts: Tensor) -> None:
            u, new = step.update(gradients, state, params, start, round, noise, number)
            if uneven:  # a client that has finished stands still
                going = counts > 0
                u = {name: v * going.view(-1, *[1] * (v.ndim - 1)) for name, v in u.items()}
            for name, v in params.items():
                v += u[name]
            pytree.tree_map(lambda old, v: old.copy_(v), state, new)

        return torch.compile(apply, dynamic=False) if self.compiled and step.elementwise else apply

    def _one_step(self, mine: Buffers, step: BatchedStep, apply: Callable[..., None], clients: int, batch: int) -> None:
        params = {name: v[:clients].detach().requires_grad_() for name, v in mine.params.items()}
        buffers = {name: v[:clients] for name, v in mine.buffers.items()}
        examples = mine.examples[:clients].index_select(1, mine.step)[:, 0, :batch]
        counts = mine.counts[:clients].index_select(1, mine.step)[:, 0]
        streams = mine.streams[:clients]
        keys = None
        if self.prepare.random:
            position = torch.arange(batch, device=self.device)
            keys = rng.fold(rng.fold(rng.fold(streams, AUGMENT), mine.step)[:, None], position).flatten()
        x = self._inputs(self.x[examples.flatten()], keys).unflatten(0, (clients, batch))
        drop = rng.fold(rng.fold(streams, LAYERS), mine.step) if self.drops else None
        losses = self._forward(x, self.y[examples], counts, params, buffers, clients, drop)
        gradients = torch.autograd.grad(losses.sum(), list(params.values()))
        with torch.no_grad():
            mine.totals[:clients] += losses.detach()
            noise = rng.fold(rng.fold(streams, STEP), mine.step) if step.plain.random else streams
            state = pytree.tree_map(lambda v: v[:clients], mine.state)
            start = {name: v if len(v) == 1 else v[:clients] for name, v in mine.start.items()}
            apply({name: v.detach() for name, v in params.items()}, dict(zip(params, gradients, strict=True)), state, start,
                  mine.round, noise, mine.step[0], counts)
            mine.step += 1


def _bucket(active: int, clients: int) -> int:
    """The smallest of K, K/2, K/4, ... that holds all active clients: few graphs, at most half of it idle."""
    size = clients
    while (size + 1) // 2 >= active and size > 1:
        size = (size + 1) // 2
    return size
