"""The forms in which an engine can compute a round, and what it means that two of them agree."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from askew.engine.parallel import Parallel
from askew.engine.protocol import Engine, Job, Lane
from askew.engine.sequential import Sequential
from askew.engine.start import initial_model
from askew.engine.task import Task
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation

LONG = os.environ.get("ASKEW_LONG") == "1"  # the long run: 200 random cases in place of 20, everything compiled
COMPILES = shutil.which("g++") is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()
Make = Callable[..., Engine]


def vectorised(graphed: bool, compiled: bool = False, chunk_jobs: int | None = None) -> Make:
    def make(task: Task, precision: str = "fp32") -> Engine:
        return Vectorised(task, chunk_jobs=chunk_jobs, precision=precision, graphed=graphed, compiled=compiled)

    return make


def parallel(task: Task, precision: str = "fp32") -> Engine:
    return Parallel(task, threads=2)


# Beside `sequential`, to which all are compared. A new form joins by one line.
FORMS: dict[str, Make] = {
    "parallel": parallel,
    "eager": vectorised(graphed=False),
    "eager, two at a time": vectorised(graphed=False, chunk_jobs=2),
    "graphed": vectorised(graphed=True),
    "graphed, two at a time": vectorised(graphed=True, chunk_jobs=2),
    "compiled": vectorised(graphed=True, compiled=True),
}
BATCHED = [name for name in FORMS if name not in ("parallel", "compiled")]
# Half of them, in turns: every name meets eager and graphed, and meets whole rounds and two clients at a time; over all
# names, each of the four forms is tried. The long run tries every name in every form.
IN_TURNS = [list(FORMS)] if LONG else [[form for form in FORMS if form not in left] for left in (
    ("eager, two at a time", "graphed"), ("eager", "graphed, two at a time"))]


def cases(names: Iterable[str], forms: Iterable[str] | Callable[[int], Iterable[str]] | None = None,
          compiled: Iterable[str] = ()) -> list[Any]:
    """(name, form) for `parametrize`; `compiled` are those names that CI compiles, in many seconds for each network.

    In the long run all are compiled. The quick run has one form of each name, every form in turns.

    Args:
        forms: those to try; default: all. A function is asked for those of the first name, the second, ...
    """
    compiled, found = set(compiled), []
    for number, name in enumerate(names):
        tried = list(forms(number) if callable(forms) else forms or FORMS)
        quick = [form for form in tried if form != "compiled"]
        for form in tried:
            if form == "compiled" and not (LONG or name in compiled):
                continue
            marks = [] if form == quick[number % len(quick)] else [pytest.mark.slow]
            if form == "compiled":
                marks.append(pytest.mark.skipif(not COMPILES, reason="torch compiles for CPUs with g++ and Python's "
                                                                     "headers, which are not installed"))
            found.append(pytest.param(name, form, id=f"{form}-{name}", marks=marks))
    return found


def in_turns(number: int) -> list[str]:
    """Forms of the number-th name."""
    return IN_TURNS[number % len(IN_TURNS)]


@dataclass(frozen=True)
class Trained:
    """What one client's training came to."""

    update: dict[str, Tensor]
    buffers: dict[str, Tensor]
    loss: float


def train(make: Make, task: Task, clients: Iterable[int] | None = None, round: int = 1,
          **options: Any) -> dict[int, Trained]:
    """One round of local training, client by client, with the task's first weights."""
    jobs = [Job(0, client) for client in (range(task.num_clients) if clients is None else clients)]
    start, found = initial_model(task), {}
    for _, chunk in make(task, **options).train([Lane(task, {0: start}, jobs, round)]):
        for k, job in enumerate(chunk.jobs):
            assert job.client not in found
            found[job.client] = Trained({name: v[k].detach().clone() for name, v in chunk.updates.items()},
                                        {name: v[k].detach().clone() for name, v in chunk.buffers.items()},
                                        float(chunk.losses[k]))
    assert sorted(found) == sorted(job.client for job in jobs)
    return found


def one_by_one(task: Task, clients: Iterable[int] | None = None, round: int = 1) -> dict[int, Trained]:
    return train(Sequential, task, clients, round)


def rounds(make: Make, task: Task, count: int) -> Simulation:
    simulation = Simulation(task, make(task))
    for _ in range(count):
        simulation.advance()
    return simulation


def assert_same_training(got: Mapping[int, Trained], reference: Mapping[int, Trained], tolerance: float = 1e-3) -> None:
    """Each client's update, tensor by tensor: apart by at most `tolerance` of the tensor's own length.

    Updates and not weights are compared, since a step that is wrong by half would vanish beside the weights it
    starts from. 1e-3 leaves room for fp32 sums in another order, which ReLU, max pooling and small BatchNorm
    batches pass on enlarged; what is wrong in a layer, a mask, a key or a padded batch is off by percents. A
    tensor whose true gradient is 0 (a bias before BatchNorm) has an update of rounding alone: 2e-5 of the whole
    update's length is allowed besides.
    """
    assert got.keys() == reference.keys()
    for client, expected in reference.items():
        assert got[client].update.keys() == expected.update.keys()
        whole = length(expected.update)
        assert whole > 0, f"client {client} has not moved: nothing is compared"
        for name, v in expected.update.items():
            assert got[client].update[name].dtype == v.dtype, name
            own, error = float(v.double().norm()), float((got[client].update[name].double() - v.double()).norm())
            assert error <= tolerance * own + 2e-5 * whole, (
                f"client {client}: {name} is {error / max(1e-30, own):.2g} of its length apart "
                f"({error / whole:.2g} of the whole update's)")
        assert got[client].buffers.keys() == expected.buffers.keys()
        for name, v in expected.buffers.items():
            assert got[client].buffers[name].dtype == v.dtype, name
            torch.testing.assert_close(got[client].buffers[name], v, atol=1e-4, rtol=tolerance,
                                       msg=lambda text, client=client, name=name: f"client {client}: {name}: {text}")
        assert got[client].loss == pytest.approx(expected.loss, rel=tolerance, abs=1e-5)


def length(tensors: Mapping[str, Tensor]) -> float:
    return float(sum(v.double().square().sum() for v in tensors.values()) ** 0.5)


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """|one - other| / |other| over all tensors together."""
    return length({name: one[name].double() - v.double() for name, v in other.items()}) / length(other)
