"""What the rounds ask of an engine: lanes of jobs in, chunks of updates out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from askew.core.client_memory import ClientMemory
from askew.core.compat import tree_map
from askew.core.tensors import ModelState, Params, Tree
from askew.engine.peers import Peers
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
        shared: number -> what the server sends beside that model.
        memory: what clients remember, where their pieces do; engines read it and leave the writing to the round.
        left_out: reason -> clients of which an engine got nothing that can be used; it writes them down here.
    """

    task: Task
    models: Mapping[int, ModelState]
    jobs: Sequence[Job]
    round: int
    shared: Mapping[int, Mapping[str, Tree]] = field(default_factory=dict)
    memory: ClientMemory | None = None
    left_out: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """Finished jobs; everything is stacked along a first axis in the order of `jobs`.

    Whoever wants to keep it beyond the next chunk copies it: an engine may use the memory again.

    Args:
        message: "update", "buffers", and what the clients' pieces have added.
        losses: [jobs] mean local losses.
        kept: what the clients remember from now on.
        squares: [jobs, tensors] squared lengths of the updates' tensors, where the engine
            has taken them for all at once.
        together: lanes whose chunks lie in memory at the same time; they follow each other.
    """

    jobs: Sequence[Job]
    message: Mapping[str, Tree]
    losses: Tensor
    kept: Tree = ()
    squares: Tensor | None = None
    together: int = 1

    def of_rows(self, rows: list[int]) -> Chunk:
        """Some of the jobs."""
        message, losses, kept = tree_map(lambda v: v[rows], (self.message, self.losses, self.kept))
        return Chunk([self.jobs[i] for i in rows], message, losses, kept,
                     None if self.squares is None else self.squares[rows])

    @property
    def updates(self) -> Params:
        return self.message["update"]

    @property
    def buffers(self) -> Params:
        return self.message["buffers"]


class Engine(Protocol):
    """How a round's local training is computed. All engines give the same result."""

    name: str
    one_at_a_time: bool  # clients train one after the other, so that threads can only share the work within one
    batches_lanes: bool  # several lanes take less time at once than one after the other

    @property
    def peers(self) -> Peers | None:
        """The other processes, where each trains clients of its own."""
        ...

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        """Train the jobs of all lanes, each from its model; yields (lane, chunk), in any order."""
        ...
