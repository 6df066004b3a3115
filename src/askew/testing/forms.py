"""The forms in which an engine can compute a round, and runs of which everything is taken down."""

from __future__ import annotations

import shutil
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from askew.core.arguments import checked
from askew.core.compat import tree_map
from askew.core.errors import AskewError, DivergedError, first_line
from askew.core.tensors import Tree
from askew.engine.parallel import Parallel
from askew.engine.protocol import Chunk, Engine, Lane
from askew.engine.sequential import Sequential
from askew.engine.task import Task
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation
from askew.testing.trial import Trial

Make = Callable[[Task], Engine]


@checked
def forms(device: str = "cpu", compiled: bool | None = None) -> dict[str, Make]:
    """The forms that this machine can run, beside one client after the other: name -> task -> engine.

    Args:
        compiled: whether the compiled form is among them; default: where torch finds a compiler.
    """
    engines: dict[str, Make] = {"one client after the other, in reverse order": Reversed}
    if device == "cpu":
        engines["threads"] = lambda task: Parallel(task, threads=2)
    engines |= {"all at once": vectorised(), "two at a time": vectorised(chunk_jobs=2),
                "replayed": vectorised(graphed=True), "replayed, two at a time": vectorised(graphed=True, chunk_jobs=2)}
    if compiled or (compiled is None and (device != "cpu" or can_compile())):
        engines["compiled"] = vectorised(graphed=True, compiled=True)
    return engines


def can_compile() -> bool:
    """Whether torch can compile for this CPU: it wants g++ and Python's headers."""
    return shutil.which("g++") is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()


def vectorised(graphed: bool = False, compiled: bool = False, **options: Any) -> Make:
    return lambda task: Vectorised(task, graphed=graphed, compiled=compiled, **options)


class Reversed(Sequential):
    """One client after the other, the last one first."""

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        return super().train([replace(lane, jobs=list(reversed(lane.jobs))) for lane in lanes])


class Recorded:
    """An engine of which each client's message and memory are taken down."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.one_at_a_time, self.batches_lanes = engine.name, engine.one_at_a_time, engine.batches_lanes
        self.peers = engine.peers
        self._engine = engine
        self.clients: dict[int, tuple[Tree, Tree]] = {}

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        for lane, chunk in self._engine.train(lanes):
            for k, job in enumerate(chunk.jobs):
                self.clients[job.client] = _row(chunk.message, k), _row(chunk.kept, k)
            yield lane, chunk


def _row(tree: Tree, k: int) -> Tree:
    return tree_map(lambda v: v[k].detach().clone(), tree)


@dataclass(frozen=True)
class Seen:
    """What was taken down of a run.

    Args:
        clients: per round, client -> (message, memory).
        models: per round, the server's model and the state of its pieces.
    """

    clients: list[dict[int, tuple[Tree, Tree]]]
    models: list[tuple[Tree, Tree]]


@contextmanager
def blamed(trial: Trial, form: str) -> Iterator[None]:
    """Whatever goes wrong is the piece's failure in this form.

    An engine that falls back to a plainer form says so by a warning: that is a failure, too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            yield
        except DivergedError as error:
            raise trial.failure(f"{form}: {error}") from None
        except (AskewError, AssertionError):
            raise
        except Exception as error:  # the piece's, torch's
            raise trial.failure(f"{form}: {first_line(error)}") from error


def run(trial: Trial, make: Make, form: str) -> Seen:
    """All rounds in one form."""
    task, seen = trial.task(), Seen([], [])
    with blamed(trial, form):
        recorder = Recorded(make(task))
        simulation = Simulation(task, recorder)
        for _ in range(task.recipe.rounds):
            recorder.clients = {}
            simulation.advance()
            entry = simulation.models[0]
            seen.clients.append(recorder.clients)
            seen.models.append((entry.model.params, entry.chain))
    return seen


def compare(trial: Trial, form: str, got: Seen, reference: Seen) -> None:
    """The first thing in which two runs differ, in the order in which it came about."""
    for number, expected in enumerate(reference.clients):
        where = f"{form}: round {number + 1}"
        for client, (message, kept) in expected.items():
            got_message, got_kept = got.clients[number][client]
            trial.assert_close(f"{where}, client {client}, message", got_message, message)
            trial.assert_close(f"{where}, client {client}, memory", got_kept, kept)
        model, state = reference.models[number]
        trial.assert_close(f"{where}, the server's model", got.models[number][0], model)
        trial.assert_close(f"{where}, the server pieces' state", got.models[number][1], state)
