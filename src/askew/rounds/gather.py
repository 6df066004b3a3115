"""What comes back from a round's clients, streamed into statistics as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from askew.core.cohort import Cohort
from askew.core.pool import PoolState
from askew.core.probe import ModelState, Setting
from askew.core.transform import State
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.schedule import on_device
from askew.engine.task import Task


@dataclass(frozen=True)
class GlobalModel:
    """One model of the pool with the state of its server chain."""

    model: ModelState
    chain: State


class Gathering:
    """A round under way: its jobs, and one cohort a model.

    Args:
        round: its number, from 0.
        entries: the models the round begins with.
        clients: who takes part.
        jobs: who trains which model.
        needs: cohort statistics to gather.
    """

    def __init__(self, task: Task, setting: Setting, round: int, entries: Mapping[int, GlobalModel], pool_state: PoolState,
                 clients: Sequence[int], jobs: Sequence[Job], needs: frozenset[str]) -> None:
        self.round, self.entries, self.clients, self.jobs = round, entries, clients, jobs
        self.models = {number: entry.model for number, entry in entries.items()}
        self.cohorts: dict[int, Cohort] = {}
        self.observed: dict[int, dict[int, Any]] = {}  # model -> probe -> what it gathered
        self._task, self._setting, self._pool_state, self._needs = task, setting, pool_state, needs
        self._losses: list[Tensor] = []
        self._observers = [(i, probe.observe) for i, probe in enumerate(task.probes) if probe.observe]

    @property
    def lane(self) -> Lane:
        """What an engine is to train."""
        return Lane(self._task, self.models, self.jobs, self.round)

    @property
    def train_loss(self) -> Tensor:
        """Mean over the jobs of their mean local losses."""
        return torch.cat(self._losses).mean()

    def add(self, chunk: Chunk) -> None:
        """Finished jobs, in any order."""
        self._losses.append(chunk.losses)
        for number in dict.fromkeys(job.model for job in chunk.jobs):
            at = [i for i, job in enumerate(chunk.jobs) if job.model == number]
            whole = len(at) == len(chunk.jobs)
            updates = chunk.updates if whole else {name: v[at] for name, v in chunk.updates.items()}
            buffers = chunk.buffers if whole else {name: v[at] for name, v in chunk.buffers.items()}
            squares = chunk.squares if whole or chunk.squares is None else chunk.squares[at]
            self._add_to(number, [chunk.jobs[i].client for i in at], updates, buffers, squares)

    def _add_to(self, number: int, clients: list[int], updates: Mapping[str, Tensor], buffers: Mapping[str, Tensor],
                squares: Tensor | None) -> None:
        task, start = self._task, self.models[number]
        if number not in self.cohorts:
            self.cohorts[number] = Cohort(start.params, self._needs, start.buffers)
            self.observed[number] = dict.fromkeys(i for i, _ in self._observers)
        examples = torch.tensor(task.population.sizes[clients], dtype=torch.float64)
        scores = torch.tensor(task.pool.scores(self._pool_state, number, clients), dtype=torch.float64)
        # A piece that makes the update need not say how clients count; the cohort's mean is then McMahan et al.'s.
        weights = on_device(task.server.weigh(examples, scores) if task.server.weigh else examples, task.device)
        self.cohorts[number].add(updates, weights, clients, buffers, squares)
        for i, observe in self._observers:
            for k in range(len(clients)):
                local = ModelState({name: start.params[name] + v[k] for name, v in updates.items()},
                                   {name: v[k] for name, v in buffers.items()})
                self.observed[number][i] = observe(self._setting, local, self.observed[number][i])
