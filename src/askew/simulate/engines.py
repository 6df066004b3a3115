"""The engines by name, and which of them suits a task."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from askew.core.errors import AskewError
from askew.core.population import Ownership
from askew.core.registry import suggest
from askew.data.locate import cache_folder
from askew.simulate.batched import CannotBatch
from askew.simulate.memory import recall, remember
from askew.simulate.parallel import Parallel
from askew.simulate.sequential import Engine, Job, Sequential
from askew.simulate.task import Task, initial_model
from askew.simulate.vectorised import Vectorised

ENGINES: dict[str, Callable[[Task], Engine]] = {"sequential": Sequential, "vectorised": Vectorised, "parallel": Parallel}

TRY_CLIENTS = 32  # of a calibration: enough to show what batching brings
TRY_STEPS = 4
SMALL_WORK = 5_000  # local steps of a whole run below which calibrating costs more than it can save


@dataclass(frozen=True)
class Timing:
    """What a calibration found for one engine.

    Args:
        seconds: for the trial; None where the engine cannot take the network.
        note: how it would do it, or why it cannot.
    """

    engine: str
    seconds: float | None
    note: str = ""


def make_engine(name: str, task: Task, precision: str = "fp32") -> Engine:
    """The engine of that name for a task; "auto" takes the one that a short calibration found fastest.

    Raises:
        AskewError: for an unknown name, or an engine that cannot take the network (which layer, and why).
    """
    if name == "auto":
        name = choose(task)
    if name not in ENGINES:
        raise AskewError(f"unknown engine {name!r}; {suggest(name, ['auto', *ENGINES])}")
    try:
        return Vectorised(task, precision=precision) if name == "vectorised" else ENGINES[name](task)
    except CannotBatch as error:
        raise AskewError(f"engine {name}: {error}; use --engine sequential") from None


def choose(task: Task) -> str:
    """The engine for "auto".

    GPUs: vectorised where the network can be batched. CPUs: by calibration, remembered in the cache folder; a run too
    short to be worth one is vectorised where the network is small and has no convolutions.
    """
    if task.device.type != "cpu":
        return "vectorised" if _can(Vectorised, task) else "sequential"
    a_client = task.recipe.epochs * -(-int(task.population.sizes.mean()) // (task.recipe.batch_size or 10**9))
    steps = task.cohort_size * task.recipe.rounds * a_client
    if steps < SMALL_WORK:
        convolves = any(isinstance(layer, torch.nn.Conv2d) for layer in task.module.modules())
        return "vectorised" if not convolves and task.cohort_size > 1 and _can(Vectorised, task) else "sequential"
    key, known = _signature(task), _remembered()
    if key not in known:
        timings = [t for t in calibrate(task) if t.seconds is not None]
        known[key] = min(timings, key=lambda t: t.seconds or 0.0).engine
        remember(memory_file(), known)
    return known[key]


def calibrate(task: Task, repeats: int = 3) -> list[Timing]:
    """Time each engine on a few steps of a few clients; the best of some interleaved repeats counts."""
    trial = _cut(task)
    clients = list(range(trial.num_clients))
    start = initial_model(replace(trial, recipe=trial.recipe.replace(start="random()")))
    engines: dict[str, Engine] = {}
    timings: dict[str, Timing] = {}
    for name, make in ENGINES.items():
        try:
            engines[name] = make(trial)
            timings[name] = Timing(name, None, getattr(engines[name], "kind", ""))
        except CannotBatch as error:
            timings[name] = Timing(name, None, str(error))
    rng_state = torch.get_rng_state()
    for repeat in range(repeats + 1):
        for name, engine in engines.items():
            began = time.perf_counter()
            for _ in engine.train({0: start}, [Job(0, client) for client in clients], 0):
                pass
            seconds = time.perf_counter() - began
            best = timings[name].seconds
            if repeat > 0:  # the first one warms up
                timings[name] = replace(timings[name], seconds=min(seconds, best if best is not None else seconds))
    torch.set_rng_state(rng_state)
    return list(timings.values())


def _cut(task: Task) -> Task:
    """The task with some of its clients and a few steps for each."""
    clients = task.sample(0)[:TRY_CLIENTS]
    most = TRY_STEPS * task.recipe.batch_size if task.recipe.batch_size else 10**9
    train = Ownership.of([task.population.train[client][:most] for client in clients])
    labels = task.data.train.y.cpu().numpy()
    population = replace(task.population, train=train, counts=train.counts(labels, task.data.num_classes), validation=None,
                         test=None, groups=None)
    return replace(task, population=population, recipe=task.recipe.replace(epochs=1, fraction=1.0))


def _can(engine: Callable[[Task], Engine], task: Task) -> bool:
    try:
        engine(task)
    except CannotBatch:
        return False
    return True


def _signature(task: Task) -> str:
    """What the choice depends on: network, inputs, step, batch, cohort, machine."""
    layers = [(type(layer).__name__, [tuple(p.shape) for p in layer.parameters(recurse=False)]) for layer in task.module.modules()]
    sizes = task.population.sizes
    about = (layers, task.data.input_shape, [str(s) for s in task.recipe.preprocess], [s.name for s in task.recipe.step],
             task.recipe.batch_size, task.cohort_size, int(np.log2(max(1, sizes.mean()))), torch.get_num_threads(), torch.__version__,
             os.cpu_count())
    return hashlib.blake2b(repr(about).encode(), digest_size=12).hexdigest()


def memory_file() -> Path:
    """Where choices are remembered."""
    return cache_folder() / "engines.json"


def _remembered() -> dict[str, str]:
    return {key: name for key, name in recall(memory_file()).items() if name in ENGINES}
