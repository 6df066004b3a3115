"""Which examples the clients of a round will see, step by step: known before the models that they start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from askew.core import rng
from askew.core.recipe import Recipe
from askew.engine.protocol import Job, Lane
from askew.engine.schedule import Schedule, make_schedule, on_device


@dataclass(frozen=True)
class Layout:
    """Which examples a chunk of jobs will see: known before the models they start from."""

    jobs: list[tuple[int, Job]]  # (lane, job), most steps first
    schedule: Schedule
    streams: Tensor
    sizes: list[int]  # examples of each job's client


class Planner:
    """Lays out rounds of one or several lanes.

    Args:
        recipe: whose epochs and batches all lanes share.
        device: where the examples lie.
        chunk_jobs: at most so many jobs are trained at once.
    """

    def __init__(self, recipe: Recipe, device: torch.device, chunk_jobs: int) -> None:
        self.recipe, self.device, self.chunk_jobs = recipe, device, chunk_jobs
        self._owned: tuple[tuple[int, ...], Tensor, list[int]] | None = None

    def parts(self, lanes: Sequence[Lane], jobs: list[tuple[int, Job]] | None = None) -> list[list[tuple[int, Job]]]:
        """The jobs of all lanes, or these (lane, job), most steps first, in chunks."""
        recipe = self.recipe
        jobs = [(i, job) for i, lane in enumerate(lanes) for job in lane.jobs] if jobs is None else jobs
        sizes = {(i, job.client): _size(lanes, i, job) for i, job in jobs}
        jobs.sort(key=lambda at: -_steps(sizes[at[0], at[1].client], recipe.epochs, recipe.batch_size))  # stable
        chunks = -(-len(jobs) // self.chunk_jobs)
        size = -(-len(jobs) // max(1, chunks))  # equally large: a small one at the end would leave a device idle
        return [jobs[low : low + size] for low in range(0, len(jobs), max(1, size))]

    def lay_out(self, lanes: Sequence[Lane], jobs: list[tuple[int, Job]]) -> Layout:
        """What the jobs of one of these chunks will see."""
        recipe, device = self.recipe, self.device
        sizes = [_size(lanes, i, job) for i, job in jobs]
        owned, base = self._all_owned(lanes)
        roots = torch.stack([rng.key(lane.task.recipe.seed, "client", lane.round) for lane in lanes])
        lane_of = torch.tensor([i for i, _ in jobs])
        streams = on_device(rng.fold(roots[lane_of], torch.tensor([job.client for _, job in jobs])), device)
        offsets = on_device([base[i] + int(lanes[i].task.population.train.offsets[job.client]) for i, job in jobs],
                            device)
        schedule = make_schedule(streams, owned, offsets, sizes, recipe.epochs, recipe.batch_size)
        return Layout(jobs, schedule, streams, sizes)

    def _all_owned(self, lanes: Sequence[Lane]) -> tuple[Tensor, list[int]]:
        """All lanes' training indices end to end, and where each lane's begin; kept between rounds."""
        which = tuple(id(lane.task) for lane in lanes)
        if self._owned is None or self._owned[0] != which:
            parts = [lane.task.client_indices for lane in lanes]
            base = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).tolist()
            self._owned = (which, torch.cat(parts) if len(parts) > 1 else parts[0], base)
        return self._owned[1], self._owned[2]


def _size(lanes: Sequence[Lane], lane: int, job: Job) -> int:
    return int(lanes[lane].task.population.sizes[job.client])


def _steps(size: int, epochs: int, batch_size: int) -> int:
    return epochs * (-(-size // batch_size) if batch_size else 1)
