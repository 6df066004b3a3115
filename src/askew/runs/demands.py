"""What a method asks of a federation, found out from its pieces: data, memory, messages, trust."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from askew.core import rng
from askew.core.cohort import Cohort
from askew.core.compat import tree_leaves
from askew.core.server_piece import ServerContext
from askew.core.statistic import Senders
from askew.core.tensors import num_bytes
from askew.engine.task import Task
from askew.rounds.single_updates import needs_single_updates

# What the server may be told of a client beside its update -> in words
TOLD = {"examples": "how many examples it has", "steps": "how many local steps it took", "scores": "how it scores the "
        "model", "losses": "its training loss"}


@dataclass(frozen=True)
class Demands:
    """What a method asks for.

    Args:
        at_server: share of the training examples that the server has; 0: none.
        shared: whether clients are given training examples that others have, too.
        one_place: whether all data lie in one place.
        trains: whether the server trains itself.
        validation: whether each client keeps examples for validation.
        several: whether there may be several global models.
        private: whether clients keep tensors of the network to themselves.
        memory: what a client remembers from one of its rounds to the next, in sizes of the model.
        state: what the server remembers of a model beside its weights, in sizes of the model.
        sends, broadcasts: names of what clients and server send beside an update and a model.
        told: what of each client the aggregate depends on, beside its messages: keys of `TOLD`.
        singly: whether the server looks at single clients' messages, and not at sums over clients alone.
        up, down: bytes of a client and round, in sizes of the model.
    """

    at_server: float
    shared: bool
    one_place: bool
    trains: bool
    validation: bool
    several: bool
    private: bool
    memory: float
    state: float
    sends: tuple[str, ...]
    broadcasts: tuple[str, ...]
    told: tuple[str, ...]
    singly: bool
    up: float
    down: float

    @property
    def secure_aggregation(self) -> bool:
        """Whether sums over clients are all that the server must see: then it need see no single client's update."""
        return not (self.singly or self.one_place)

    def rows(self) -> Iterator[tuple[str, str]]:
        """What is asked, and how much of it, in words; each question is answered, with a no where nothing is asked."""
        where = "shared with all clients" if self.shared else "trained on there" if self.trains else "set aside"
        yield "data at the server", (
            "all data in one place" if self.one_place
            else f"{100 * self.at_server:.3g}% of the training examples, {where}" if self.at_server else "no")
        yield "validation data at each client", "yes" if self.validation else "no"
        yield "memory at each client", _sizes(self.memory) if self.memory else "no"
        yield "state at the server", _sizes(self.state) if self.state else "no"
        yield "private layers", "yes" if self.private else "no"
        yield "several global models", "yes" if self.several else "no"
        yield "what the server knows of a client", ", ".join(TOLD[name] for name in self.told) or "nothing"
        yield "bytes up, per client and round", f"{_sizes(self.up)}{_names(self.sends)}"
        yield "bytes down, per client and round", f"{_sizes(self.down)}{_names(self.broadcasts)}"
        yield "secure aggregation", (
            "no federation" if self.one_place
            else "possible: the server needs sums over clients alone" if self.secure_aggregation
            else "no: the server follows each client's scores of each model" if self.several
            else "no: the server compares single updates")


def _sizes(times: float) -> str:
    return f"{times:.3g} x the model"


def _names(names: tuple[str, ...]) -> str:
    return f" ({', '.join(names)} beside it)" if names else ""


def demands_of(task: Task, record: dict[str, Any]) -> Demands:
    """What a task's method asks for.

    Args:
        record: of one of its rounds, for the bytes.
    """
    model, population = task.fresh, task.population
    size = num_bytes(model.params) + num_bytes(model.buffers)
    memory = task.client.keep(model)
    return Demands(
        at_server=len(population.server) / len(task.data.train),
        shared=len(set(population.train.indices.tolist())) < len(population.train.indices),
        one_place=population.is_one_place,
        trains=any(piece.trains for piece in task.server.pieces),
        validation=task.pool.needs_validation,
        several=task.pool.needs_validation,
        private=task.client.enters,
        memory=_bytes(memory) / size,
        state=_bytes(task.server.init(model.params)) / size,
        sends=tuple(name for piece in task.client.pieces for name in piece.sends),
        broadcasts=tuple(name for piece in task.server.pieces for name in piece.sends),
        told=tuple(name for name in TOLD if depends_on(task, name)),
        singly=needs_single_updates(task) is not None,
        up=record["bytes_up"] / task.cohort_size / size,
        down=record["bytes_down"] / task.cohort_size / size,
    )


def _bytes(tree: Any) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def depends_on(task: Task, field: str) -> bool:
    """Whether what the server makes of two clients changes with a field of `Senders`: it is tried."""
    plain = {name: torch.tensor([1.0, 2.0], dtype=torch.float64) for name in TOLD}
    other = {**plain, field: torch.tensor([5.0, 3.0], dtype=torch.float64)}
    updates = [_made_of(task, Senders([0, 1], **numbers)) for numbers in (plain, other)]
    return any(not torch.equal(a, b) for a, b in zip(*updates, strict=True))


def _made_of(task: Task, senders: Senders) -> list[Tensor]:
    """The server's update, and what it remembers, after a round of two clients that send some numbers."""
    model, draws = task.fresh.params, torch.Generator().manual_seed(0)
    update = {name: torch.randn(2, *v.shape, generator=draws) for name, v in model.items()}
    sent = {name for piece in task.client.pieces for name in piece.sends}
    cohort = Cohort(model, task.server.needs)
    cohort.add({"update": update, **dict.fromkeys(sent, update)}, senders, task.server.weigh(senders))
    ctx = ServerContext(model, 0, 2, rng.key(0, "server"), cohort, train=lambda params, epochs: params)
    result = task.server.update({}, task.server.init(model), ctx)
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
