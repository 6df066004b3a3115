"""What the rounds ask of an engine: lanes of jobs in, chunks of updates out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from askew.core.probe import ModelState
from askew.core.transform import Params
from askew.engine.task import Task


@dataclass(frozen=True)
class Job:
    """One client training one global model for one round."""

    model: int
    client: int


@dataclass(frozen=True)
class Lane:
    """One configuration's round: several lanes of equal shape train together in a sweep.

    Args:
        task: the configuration.
        models: number -> the weights that its jobs start from.
        jobs: who trains which model.
        round: rounds completed before this one.
    """

    task: Task
    models: Mapping[int, ModelState]
    jobs: Sequence[Job]
    round: int


@dataclass(frozen=True)
class Chunk:
    """Finished jobs; updates, buffers and losses are stacked along a first axis in the order of `jobs`.

    Whoever wants to keep them beyond the next chunk copies them: an engine may use their memory again.

    Args:
        squares: [jobs, tensors] squared lengths of the updates' tensors, where the engine has taken them for all at once.
    """

    jobs: Sequence[Job]
    updates: Params
    buffers: Params
    losses: Tensor
    squares: Tensor | None = None


class Engine(Protocol):
    """How a round's local training is computed. All engines give the same result."""

    name: str
    one_at_a_time: bool  # clients train one after the other, so that threads can only share the work within one
    batches_lanes: bool  # several lanes take less time at once than one after the other

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        """Train the jobs of all lanes, each from its model; yields (lane, chunk), in any order."""
        ...
