"""The engines by name, and which of them suits a task."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from askew.core.errors import AskewError, suggest
from askew.core.ownership import Ownership
from askew.engine.batched import CannotBatch
from askew.engine.freed_memory import keep_freed_memory
from askew.engine.graphed import PRECISIONS
from askew.engine.parallel import Parallel
from askew.engine.peers import DISTRIBUTED
from askew.engine.protocol import Engine, Job, Lane
from askew.engine.sample import sample
from askew.engine.sequential import Sequential
from askew.engine.task import Task
from askew.engine.threads import allowed_threads, examples_per_step, forward_flops, threads_for, use_threads
from askew.engine.tuning import FEW_CLIENTS, SMALL_STEP, SMALL_WEIGHTS
from askew.engine.vectorised import Vectorised

ENGINES: dict[str, Callable[[Task], Engine]] = {"sequential": Sequential, "vectorised": Vectorised,
                                                "parallel": Parallel}

TRY_CLIENTS = 32  # of a calibration: enough to show what batching brings
TRY_STEPS = 4


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


def make_engine(name: str, task: Task, precision: str = "fp32", runs: int = 1, compiled: bool | None = None) -> Engine:
    """The engine of that name for a task; "auto" takes the one that `choose` names.

    A network that the engine cannot take is trained one client after the other; a warning says which layer and why.

    Args:
        precision: of the vectorised engine.
        runs: that will train together.
        compiled: whether the vectorised engine compiles the network; None: by rule.

    Raises:
        AskewError: for an unknown name or precision.
    """
    if name == "auto":
        name = choose(task)
    check_engine(name, precision)
    keep_freed_memory()
    try:
        if name == "vectorised":
            return Vectorised(task, precision=precision, runs=runs, compiled=compiled)
        return ENGINES[name](task)
    except CannotBatch as error:
        warnings.warn(f"engine {name}: {error}; sequential is taken instead: one client after the other", UserWarning,
                      stacklevel=2)
        return Sequential(task)


def check_engine(name: str, precision: str, several: bool = False) -> None:
    """Refuse names that there are not, before any work.

    Args:
        several: whether there may be several runs, which processes would not train as one.
    """
    if name not in ("auto", DISTRIBUTED, *ENGINES):
        raise AskewError(f"unknown engine {name!r}; {suggest(name, ['auto', *ENGINES, DISTRIBUTED])}")
    if name == DISTRIBUTED and several:
        raise AskewError("engine distributed trains one run in several processes (askew run, askew resume); many runs "
                         "go over processes and machines with --ray")
    if precision not in PRECISIONS:
        raise AskewError(f"unknown precision {precision!r}; {suggest(precision, PRECISIONS)}")


def choose(task: Task, lanes: int = 1, processes: int = 1) -> str:
    """The engine for "auto": a rule, so that a recipe has the same one in every run, however busy the machine is.

    GPUs: vectorised. CPUs: vectorised where several clients have a small network, whose operations take less time than
    calling them; else parallel where there are several clients, and threads for them; else sequential. The bounds come
    from benchmarks/engine_choice.py. Rounds play no part: 20 are the first 20 of 40.

    Args:
        lanes: configurations of this shape that would train together.
        processes: that share a round's clients.
    """
    if task.device.type != "cpu":
        return "vectorised"  # or what `make_engine` falls back on
    weights = sum(p.numel() for p in task.module.parameters())
    flops = forward_flops(task) * examples_per_step(task)
    cohort = -(-task.cohort_size // processes)
    name = choose_by(weights, flops, lanes * cohort, cohort, allowed_threads())
    return name if name == "sequential" or _can(ENGINES[name], task) else "sequential"


def choose_by(weights: int, flops: float, clients: int, cohort: int, threads: int) -> str:
    """The rule on a CPU, in numbers.

    Args:
        weights: of the network.
        flops: floating-point operations of one client's forward pass in a local step.
        clients: that could be batched, of all configurations together.
        cohort: clients of one configuration.
        threads: as many as torch may use.

    Example:
        >>> choose_by(4_810, 94_720, clients=10, cohort=10, threads=2)
        'vectorised'
        >>> choose_by(431_080, 229_300_000, clients=10, cohort=10, threads=2)
        'parallel'
    """
    if clients >= FEW_CLIENTS and weights <= SMALL_WEIGHTS and flops <= SMALL_STEP:
        return "vectorised"
    return "parallel" if min(threads, cohort) > 1 else "sequential"


def calibrate(task: Task, repeats: int = 3, clients: int = TRY_CLIENTS, steps: int = TRY_STEPS) -> list[Timing]:
    """Time each engine on a few steps of a few clients; the best of some interleaved repeats counts.

    For `askew bench` and the benchmark behind `choose`; no run depends on it.
    """
    trial = _cut(task, clients, steps)
    jobs = [Job(0, client) for client in range(trial.num_clients)]
    start = trial.fresh
    engines: dict[str, Engine] = {}
    timings: dict[str, Timing] = {}
    for name, make in ENGINES.items():
        try:
            engines[name] = make(trial)
            timings[name] = Timing(name, None, getattr(engines[name], "kind", ""))
        except CannotBatch as error:
            timings[name] = Timing(name, None, str(error))
    rng_state = torch.get_rng_state()  # local training seeds the global generator
    for repeat in range(repeats + 1):
        for name, engine in engines.items():
            with use_threads(threads_for(trial, engine).training):
                began = time.perf_counter()
                for _ in engine.train([Lane(task, {0: start}, jobs, 0)]):
                    pass
                seconds = time.perf_counter() - began
            best = timings[name].seconds
            if repeat > 0:  # the first one warms up
                timings[name] = replace(timings[name], seconds=min(seconds, best if best is not None else seconds))
    torch.set_rng_state(rng_state)
    return list(timings.values())


def _cut(task: Task, clients: int, steps: int) -> Task:
    """The task with some of its clients and a few steps for each."""
    most = steps * task.recipe.batch_size if task.recipe.batch_size else 10**9
    train = Ownership.of([task.population.train[client][:most] for client in sample(task, 0)[:clients]])
    labels = task.data.labels_of(task.examples)
    population = replace(task.population, train=train, counts=train.counts(labels, task.data.num_classes),
                         validation=None, test=None, groups=None)
    return replace(task, population=population, recipe=task.recipe.replace(epochs=1, fraction=1.0))


def _can(engine: Callable[[Task], Engine], task: Task) -> bool:
    try:
        engine(task)
    except CannotBatch:
        return False
    return True
