"""What comes back from a round's clients, streamed into statistics as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from askew.core.client_memory import ClientMemory
from askew.core.cohort import Cohort
from askew.core.compat import tree_leaves, tree_map
from askew.core.errors import AskewError
from askew.core.pool import PoolState
from askew.core.probe import ProbeContext
from askew.core.statistic import Senders
from askew.core.tensors import ModelState, Tree
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.schedule import on_device
from askew.engine.task import Task
from askew.rounds.mishaps import absent, spoilers, spoilt


@dataclass(frozen=True)
class GlobalModel:
    """One model of the pool with the state of its server chain."""

    model: ModelState
    chain: Tree


class Gathering:
    """A round under way: its jobs, and one cohort per model.

    Args:
        round: its number, from 0.
        entries: the models the round begins with.
        clients: who is asked to take part.
        asked: who is asked to train which model; `jobs` are those that will report.
        memory: what clients remember; written when the round is complete.
    """

    def __init__(self, task: Task, probe_context: ProbeContext, round: int, entries: Mapping[int, GlobalModel],
                 pool_state: PoolState, clients: Sequence[int], asked: Sequence[Job], memory: ClientMemory) -> None:
        self.round, self.entries, self.clients, self.asked = round, entries, clients, asked
        reasons, self.measured = absent(task, round, clients)
        self.jobs = [job for job in asked if job.client not in reasons]
        self._spoilers = spoilers(task, round, clients)  # of the whole round: an engine hands it over in parts
        self.left_out: dict[str, list[int]] = {}  # reason -> whose updates, one entry for each
        for job in asked:
            if job.client in reasons:
                self.left_out.setdefault(reasons[job.client], []).append(job.client)
        self.held: list[Chunk] = []  # until a guard has seen all
        self.models = {number: entry.model for number, entry in entries.items()}
        self.cohorts: dict[int, Cohort] = {}
        self._lengths: dict[int, tuple[list[int], Tensor]] = {}
        self.observed: dict[int, dict[int, Any]] = {}  # model -> probe -> what it gathered
        self.task, self._probe_context, self._pool_state, self._memory = task, probe_context, pool_state, memory
        self._needs = task.server.needs.union(*(probe.needs for probe in task.probes))
        self.remembered: list[tuple[int, list[int], Tree]] = []  # model, clients, their rows
        self._losses: list[Tensor] = []
        self.bytes_beside = 0  # of what clients have sent beside update and buffers
        self._observers = [(i, probe.observe) for i, probe in enumerate(task.probes) if probe.observe]

    @property
    def lane(self) -> Lane:
        """What an engine is to train."""
        chain = self.task.server
        shared = ({number: chain.broadcast(entry.chain) for number, entry in self.entries.items()}
                  if chain.broadcasts else {})
        return Lane(self.task, self.models, self.jobs, self.round, shared, self._memory or None,
                    self.left_out)

    @property
    def bytes_shared(self) -> int:
        """Of what the server has sent beside the models, once per job."""
        if not self.task.server.broadcasts:
            return 0
        sizes = {number: sum(v.numel() * v.element_size() for v in tree_leaves(tree))
                 for number, tree in self.lane.shared.items()}
        return sum(sizes[job.model] for job in self.asked)

    @property
    def lengths(self) -> dict[int, tuple[list[int], Tensor]]:
        """Model -> the clients that trained it, sorted, and the lengths of their updates."""
        return self._lengths or {number: (cohort.clients, cohort.lengths) for number, cohort in self.cohorts.items()}

    @property
    def train_loss(self) -> Tensor:
        """Mean over the jobs of their mean local losses; NaN where nobody has reported."""
        return torch.cat(self._losses).mean() if self._losses else torch.full((), torch.nan, device=self.task.device)

    def add(self, chunk: Chunk) -> None:
        """Finished jobs, in any order; a guarded round holds them back (`guarded.let_in`)."""
        self._count(chunk)
        chunk = spoilt(self.task, self._spoilers, chunk)
        if not self.task.guards:
            return self.take(chunk)
        message, losses, kept = tree_map(torch.clone, (dict(chunk.message), chunk.losses, chunk.kept))
        self.held.append(replace(chunk, message=message, losses=losses, kept=kept))

    def take(self, chunk: Chunk) -> None:
        """Finished jobs, into all that is made of them."""
        self._losses.append(chunk.losses)
        for number in dict.fromkeys(job.model for job in chunk.jobs):
            at = [i for i, job in enumerate(chunk.jobs) if job.model == number]
            self._add_to(number, chunk if len(at) == len(chunk.jobs) else chunk.of_rows(at))

    def take_aggregated(self, chunk: Chunk, lengths: Tensor) -> None:
        """A chunk that holds all jobs of the one model, from which the server has made a model already."""
        self._count(chunk)
        self._losses.append(chunk.losses)
        clients = [job.client for job in chunk.jobs]
        self._lengths[0] = clients, lengths
        if self._memory:
            self.remembered.append((0, clients, tree_map(torch.clone, chunk.kept)))

    def part(self) -> dict[str, Any]:
        """What the other processes of a run have to know of what was gathered here."""
        return {"cohorts": {number: cohort.part() for number, cohort in self.cohorts.items()},
                "losses": self._losses, "bytes_beside": self.bytes_beside, "observed": self.observed}

    def take_shared(self, cohorts: dict[int, Cohort], losses: list[Tensor], bytes_beside: int,
                    observed: dict[int, dict[int, Any]]) -> None:
        """What all processes have gathered, in place of what was gathered here."""
        self.cohorts, self._losses, self.bytes_beside, self.observed = cohorts, losses, bytes_beside, observed

    def cohort(self, number: int) -> Cohort:
        """What has been gathered of one model's clients; empty at first."""
        start = self.models[number]
        return self.cohorts[number] if number in self.cohorts else Cohort(start.params, self._needs, start.buffers)

    def _count(self, chunk: Chunk) -> None:
        beside = {name: tree for name, tree in chunk.message.items() if name not in ("update", "buffers")}
        self.bytes_beside += sum(v.numel() * v.element_size() for v in tree_leaves(beside))

    def senders(self, number: int, chunk: Chunk) -> Senders:
        """Who sent a chunk, all of it for one model."""
        task, clients = self.task, [job.client for job in chunk.jobs]
        examples = torch.tensor(task.population.sizes[clients], dtype=torch.float64)
        scores = torch.tensor(task.pool.scores(self._pool_state, number, clients), dtype=torch.float64)
        size = task.recipe.batch_size
        steps = task.recipe.epochs * ((examples / size).ceil() if size else torch.ones_like(examples))
        return Senders(clients, examples, steps, scores, chunk.losses)

    def _add_to(self, number: int, chunk: Chunk) -> None:
        task, start, clients = self.task, self.models[number], [job.client for job in chunk.jobs]
        if number not in self.cohorts:
            self.cohorts[number] = self.cohort(number)
            self.observed[number] = dict.fromkeys(i for i, _ in self._observers)
        senders = self.senders(number, chunk)
        self.cohorts[number].add(chunk.message, senders,
                                 on_device(task.server.weigh(senders), task.device), chunk.squares)
        if self._memory:
            self.remembered.append((number, clients, tree_map(torch.clone, chunk.kept)))
        elif tree_leaves(chunk.kept):
            raise AskewError("a client piece's `end` returns memory, and its `keep` announces none: it would be lost; "
                             "give the piece a `keep` that returns what a client remembers before its first round")
        updates, buffers = chunk.updates, chunk.buffers
        for i, observe in self._observers:
            for k in range(len(clients)):
                local = ModelState({name: start.params[name] + v[k] for name, v in updates.items()},
                                   {name: v[k] for name, v in buffers.items()})
                self.observed[number][i] = observe(self._probe_context, local, self.observed[number][i])
