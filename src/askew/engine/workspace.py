"""Device memory in fixed places: a CUDA graph reads and writes the addresses that it was captured with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from askew.core.compat import foreach_copy_, tree_leaves, tree_map
from askew.core.tensors import Params, Tree
from askew.engine.batched_chain import Facts
from askew.engine.kernels.conv import KERNEL_ORDER
from askew.engine.step_plan import Form
from askew.engine.work import Work


@dataclass
class Workspace:
    """Memory for the local steps of up to K clients, of up to T steps with batches of up to B examples.

    Keys that a chunk has no use for are not made: the clients' streams stand in their places, unread.
    """

    # What a chunk brings.
    start: Params  # [K, ...], or [1, ...] where all start from one model
    buffers: Params  # [K, ...]
    kept: Tree  # [K, ...] what the clients remember
    facts: Facts
    varying: dict[Any, Tensor]  # [K] arguments of pieces in which clients differ
    examples: Tensor  # [K, T, B]
    counts: Tensor  # [K, T] real examples; 0 where a client has finished
    streams: Tensor  # [K]
    round: Tensor
    # What is made of it before the first step, for all steps at once.
    augment_keys: Tensor  # [K, T, B] of the examples' random changes
    drop_keys: Tensor  # [K, T] of dropout
    noise_keys: Tensor  # [K, T] of what pieces draw at a step
    # What the steps change.
    params: Params  # [K, ...]; after the last step the updates
    low: Params  # [K, ...] bf16 copies for the matrix units, where precision is bf16
    state: Tree  # [K, ...] of the pieces
    step: Tensor  # [1] the number of the local step, counted up by the graph itself
    totals: Tensor  # [K] summed losses
    # What is read off after the last.
    squares: Tensor  # [K, tensors] squared lengths of the updates
    ones: Tensor  # [K] the gradient of the sum of all losses
    applies: dict[Form, Callable[..., None]] = field(default_factory=dict)  # the optimiser's step, compiled

    @property
    def room(self) -> int:
        """K: so many clients it can take."""
        return len(self.streams)

    def holds(self, work: Work) -> bool:
        """Whether the chunk fits, and not so loosely that most of the work would be idle."""
        clients = len(work.streams)
        return (clients <= self.room <= 2 * clients and (clients > 1 or self.room == 1)
                and self.examples.shape[1] >= work.schedule.examples.shape[1])

    def load(self, work: Work) -> None:
        """Copy what a chunk brings to where the graphs read it."""
        clients, schedule = len(work.streams), work.schedule
        copies = [(self.start[name][: len(v)], v) for name, v in work.start.items()]
        copies += [(self.buffers[name][:clients], v) for name, v in work.start_buffers.items()]
        copies += [(self.varying[at][:clients], v) for at, v in work.chain.varying.items()]
        copies += [(place[: len(v)], v) for place, v in zip(
            tree_leaves((self.kept, self.facts.numbers, self.facts.shared)),
            tree_leaves((work.kept, work.facts.numbers, work.facts.shared)), strict=True)]
        foreach_copy_([place for place, _ in copies], [v.expand_as(place) for place, v in copies])
        if clients < self.room:
            self.counts.zero_()
        self.examples[:clients, : schedule.examples.shape[1]].copy_(schedule.examples)
        self.counts[:clients, : schedule.counts.shape[1]].copy_(schedule.counts)
        self.streams[:clients].copy_(work.streams)
        self.round.fill_(work.round)


def make_workspace(work: Work, low: Collection[str], kernels: Collection[str], augments: bool,
                   drops: bool) -> Workspace:
    """Room for chunks of just this one's shape.

    Args:
        low: names of weights that have a bf16 copy.
        kernels: names of weights that only convolutions use.
        augments, drops: whether examples are changed at random, and whether the network has dropout.
    """
    clients, device, schedule, chain = len(work.streams), work.streams.device, work.schedule, work.chain
    params = {name: _kernels(v, clients) if name in kernels else v.new_empty((clients, *v.shape[1:]))
              for name, v in work.start.items()}
    round = torch.zeros((), dtype=torch.int64, device=device)
    return Workspace(
        start={name: torch.empty_like(v) for name, v in work.start.items()},
        buffers={name: v.new_empty((clients, *v.shape[1:])) for name, v in work.start_buffers.items()},
        kept=tree_map(torch.clone, work.kept),
        facts=Facts(**tree_map(torch.clone, work.facts.numbers), shared=tree_map(torch.clone, work.facts.shared)),
        varying={at: torch.empty_like(v) for at, v in chain.varying.items()},
        examples=torch.empty_like(schedule.examples),
        counts=torch.empty_like(schedule.counts),
        streams=torch.empty_like(work.streams),
        round=round,
        augment_keys=torch.zeros_like(schedule.examples) if augments else work.streams,
        drop_keys=torch.zeros_like(schedule.counts) if drops else work.streams,
        noise_keys=torch.zeros_like(schedule.counts) if chain.traits.draws else work.streams,
        params=params,
        low={name: torch.empty_like(v, dtype=torch.bfloat16) for name, v in params.items() if name in low},
        state=chain.begin(work.kept, params, work.start, round, work.facts),
        step=torch.zeros(1, dtype=torch.int64, device=device),
        totals=torch.zeros(clients, device=device),
        squares=torch.zeros((clients, len(params)), dtype=torch.float64, device=device),
        ones=torch.ones(clients, device=device),
    )


def _kernels(like: Tensor, clients: int) -> Tensor:
    """Memory for convolutions' weights [K, O, C, R, S], in the order in which `client_conv2d`'s kernels read them."""
    shape = (clients, *like.shape[1:])
    back = [KERNEL_ORDER.index(axis) for axis in range(len(shape))]
    return like.new_empty([shape[axis] for axis in KERNEL_ORDER]).permute(back)
