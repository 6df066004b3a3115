"""The one driver: what `run`, `resume`, `sweep` and `compare` train with.

Configurations whose local training has the same shape (network, data, batches, pieces) train together, all clients of all
of them in one computation, each with its own weights, rates, streams and population; the others go one after the other.
A configuration's result is what it would be alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from askew.core import registry
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.core.start import Start
from askew.core.tensors import ModelState
from askew.engine.choice import choose, make_engine
from askew.engine.protocol import Engine
from askew.engine.task import Task, available, build_task
from askew.engine.threads import examples_per_step, threads_for, use_threads
from askew.rounds.round import one_round
from askew.rounds.simulation import Launched, Record, Simulation
from askew.runs.result import Result
from askew.runs.run_folder import INTERRUPTED, RunFolder, describe_environment
from askew.runs.running import Running

CHECKPOINT_SECONDS = 60.0  # at most this much work is lost to a power cut; Ctrl-C loses none
SAVING_SHARE = 0.05  # of the time, at most, goes into checkpoints

Key = TypeVar("Key", bound=Hashable)
OnRound = Callable[[int, Record, Recipe], None]
OnEnd = Callable[[int, Result], None]


@dataclass(frozen=True)
class Configuration:
    """One run to do.

    Args:
        recipe: what to do.
        path: its run folder; nothing is written without one.
        go_on: from what the folder holds: what finished or diverged is not trained again, what was interrupted goes on from
            its checkpoint. Else, and where there is no checkpoint, what it holds is replaced.
        wave: all configurations of a wave are over before one of the next begins.
    """

    recipe: Recipe
    path: Path | None = None
    go_on: bool = False
    wave: int = 0


@dataclass(frozen=True)
class Means:
    """With what configurations are trained.

    Args:
        engine: "auto", or one of `askew.engine.choice.ENGINES`. What is gone on with keeps its engine under "auto".
        precision: of the vectorised engine on a GPU; what is gone on with keeps its own.
        data, population, model: objects in place of what recipes name.
        as_alone: whether "auto" takes for each configuration the engine that it would have alone, for the same bits; else it
            takes the one that suits as many of a shape as there are.
    """

    engine: str = "auto"
    precision: str = "fp32"
    device: str = "cpu"
    data_dir: str | None = None
    data: Dataset | None = None
    population: Population | None = None
    model: nn.Module | None = None
    as_alone: bool = False

    @property
    def replaced(self) -> dict[str, str]:
        """What stands in place of what recipes name, and of which type it is."""
        objects = {"data": self.data, "population": self.population, "model": self.model}
        return {name: type(value).__name__ for name, value in objects.items() if value is not None}


def drive(configurations: Sequence[Configuration], means: Means, *, keep: bool = True, limit_s: float | None = None,
          on_round: OnRound | None = None, on_end: OnEnd | None = None) -> list[Result]:
    """Train configurations, those of equal shape together.

    Args:
        keep: whether results hold their simulations; else numbers and weights only.
        limit_s: stop, as Ctrl-C would, at the end of the round in which so many seconds are over.
        on_round: called with (number of the configuration, record, recipe); rounds of earlier sessions come first.
        on_end: called with (number of the configuration, result) when it is finished, diverged or interrupted.

    Returns:
        one result per configuration, in their order; one that diverges does not stop the others. On Ctrl-C, what there is so
        far: the results of what was not finished are `interrupted`.
    """
    course = _Course(configurations, means, keep, None if limit_s is None else time.monotonic() + limit_s, on_round, on_end)
    try:
        with torch.random.fork_rng(devices=[]):  # local training seeds the global generator
            course.run()
    except KeyboardInterrupt:
        pass  # what was under way has been kept, and its result says that it was interrupted
    return [course.result(i) for i in range(len(configurations))]


class _Course:
    """The configurations on their way: which are over, which have a folder to go on from."""

    def __init__(self, configurations: Sequence[Configuration], means: Means, keep: bool, deadline: float | None,
                 on_round: OnRound | None, on_end: OnEnd | None) -> None:
        self.configurations, self.means, self._keep, self._deadline = configurations, means, keep, deadline
        self.on_round = on_round or (lambda i, record, recipe: None)
        self._on_end = on_end or (lambda i, result: None)
        self._earlier: dict[int, RunFolder] = {}  # with a checkpoint
        self._over: dict[int, Result] = {}
        self._data: dict[str, Dataset] = {}
        self._starts: dict[Hashable, ModelState] = {}

    def run(self) -> None:
        for i, configuration in enumerate(self.configurations):
            if configuration.go_on and configuration.path is not None:
                self._look(i, configuration.recipe, configuration.path)
        left = [i for i in range(len(self.configurations)) if i not in self._over]
        self._load([self.configurations[i].recipe for i in left])
        for numbers in _grouped(left, lambda i: (self.configurations[i].wave, shape_of(self.configurations[i].recipe))).values():
            with use_threads(1):  # a few examples to see what a network takes; training has threads of its own
                tasks = {i: self._task(i) for i in numbers}
            for engine, members in self._engines(tasks):
                _Lockstep(self, engine, {i: tasks[i] for i in members}).train()

    def _look(self, i: int, recipe: Recipe, path: Path) -> None:
        """What an earlier session left in a folder."""
        RunFolder.check_free(path, overwrite=True)
        if not path.exists() or not any(path.iterdir()):
            return
        folder = RunFolder.open(path)
        if folder.recipe != recipe.replace(name=folder.recipe.name):
            raise AskewError(f"{str(path)!r} holds a run of another recipe; go on with the settings it began with, or name another folder")
        if folder.divergence is not None or folder.is_finished:
            result = Result(recipe, folder.records(), folder.load_weights("model"), folder.seconds, folder=path,
                            diverged=folder.divergence, together=folder.together)
            for record in result.records:
                self.on_round(i, record, recipe)
            self.end(i, result)
        elif folder.has_checkpoint:
            for name in folder.environment.get("replaced", {}):
                if name not in self.means.replaced:
                    raise AskewError(f"{str(path)!r} was given a {name} of its own; go on in Python with askew.resume(..., {name}=...)")
            self._earlier[i] = folder

    def _load(self, recipes: Iterable[Recipe]) -> None:
        """All data before the first round: what is missing should be missed now."""
        for name in dict.fromkeys(str(recipe.data) for recipe in recipes):
            data = self.means.data
            data = registry.build("data", name, data_dir=self.means.data_dir) if data is None else data
            self._data[name] = data.to(available(self.means.device))

    def _task(self, i: int) -> Task:
        means, recipe = self.means, self.configurations[i].recipe
        return build_task(recipe, data=self._data[str(recipe.data)], population=means.population, model=means.model, device=means.device)

    def _engines(self, tasks: Mapping[int, Task]) -> Iterator[tuple[Engine, list[int]]]:
        """Engines for tasks of equal shape, and whom they train at once: all where the engine batches them, else one by one."""
        chosen: dict[Hashable, str] = {}  # the rule is asked once for tasks that do not differ in its eyes

        def choice(task: Task) -> str:
            alone = self.means.as_alone
            key = (task.untrained, task.cohort_size, examples_per_step(task)) if alone else ()
            if key not in chosen:
                chosen[key] = choose(task, lanes=1 if alone else len(tasks))
            return chosen[key]

        def needs(i: int) -> tuple[str, str, str]:
            environment = self._earlier[i].environment if i in self._earlier else {}
            name = self.means.engine if self.means.engine != "auto" else environment.get("engine") or choice(tasks[i])
            # An engine has one network for all that it trains together: what is not trained must be alike.
            return name, environment.get("precision", self.means.precision), tasks[i].untrained

        with use_threads(1):
            groups = _grouped(tasks, needs)
        for (name, precision, _), members in groups.items():
            compiled = next((self._earlier[i].was_compiled for i in members if i in self._earlier), None)
            with use_threads(1):
                engine = make_engine(name, tasks[members[0]], precision, len(members), compiled)
            for part in [members] if engine.batches_lanes else [[i] for i in members]:
                yield engine, part

    def begin(self, i: int, task: Task, engine: Engine) -> Running:
        recipe, path, means = self.configurations[i].recipe, self.configurations[i].path, self.means
        if i in self._earlier:  # its start lies behind: a warm-up need not be trained again
            running = Running.from_checkpoint(Simulation(task, engine, start=task.fresh), recipe, self._earlier[i])
            for record in running.records:
                self.on_round(i, record, recipe)
            return running
        with use_threads(threads_for(task, engine).training):
            start = self._start(task)
        simulation = Simulation(task, engine, start=start)
        if path is None:
            return Running(simulation, recipe)
        environment = describe_environment(means.device, engine=engine.name, compiled=getattr(engine, "compiled", False),
                                           training_threads=simulation.threads.training, precision=means.precision,
                                           data_dir=means.data_dir, replaced=means.replaced)
        return Running(simulation, recipe, RunFolder.create(path, recipe, environment, overwrite=True))

    def _start(self, task: Task) -> ModelState:
        """The first weights; one start for all that would have the same."""
        start: Start = registry.build("start", task.recipe.start)
        if start.depends_on is None:
            return start.make(task, task.fresh)
        key = str(task.recipe.start), start.depends_on(task)
        if key not in self._starts:
            self._starts[key] = start.make(task, task.fresh)
        return self._starts[key]

    def end(self, i: int, result: Result) -> None:
        self._over[i] = result if self._keep else replace(result, simulation=None)
        self._on_end(i, self._over[i])

    def check_time(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise KeyboardInterrupt

    def result(self, i: int) -> Result:
        """What became of a configuration; one that was not reached has what an earlier session left."""
        if i in self._over:
            return self._over[i]
        recipe, folder = self.configurations[i].recipe, self._earlier.get(i)
        records, seconds = (folder.records(), folder.seconds) if folder else ([], 0.0)
        return Result(recipe, records, {}, seconds, interrupted=True, folder=self.configurations[i].path)


class _Lockstep:
    """Configurations that train at once, round by round; one leaves when it is finished or diverges."""

    def __init__(self, course: _Course, engine: Engine, tasks: Mapping[int, Task]) -> None:
        self._course, self._engine, self._tasks = course, engine, tasks
        self._running: dict[int, Running] = {}
        self._ahead: dict[int, Launched] = {}  # the coming round, where the device has it already

    def train(self) -> None:
        try:
            for i, task in self._tasks.items():
                self._course.check_time()
                self._running[i] = self._course.begin(i, task, self._engine)
            saved, took = time.monotonic(), 0.0
            while self._unfinished():
                self._course.check_time()
                self._round()
                if time.monotonic() - saved > max(CHECKPOINT_SECONDS, took / SAVING_SHARE):
                    saved = time.monotonic()
                    for running in self._running.values():
                        running.save()
                    took = time.monotonic() - saved
        except KeyboardInterrupt:
            for i in list(self._running):
                self._leave(i, INTERRUPTED)
            raise

    def _unfinished(self) -> bool:
        """Whether some are left when those at their last round have gone."""
        for i in [i for i, running in self._running.items() if running.simulation.finished]:
            self._leave(i)
        return bool(self._running)

    def _leave(self, i: int, stopped: str | None = None) -> None:
        result = self._running[i].end(stopped, len(self._tasks))
        del self._running[i]
        self._course.end(i, result)

    def _round(self) -> None:
        """One round of all; of those that lag behind, where some do: a step has one round number, for the rates' decay."""
        simulations = {i: running.simulation for i, running in self._running.items()}
        last = min(simulation.round for simulation in simulations.values())
        level = {i: simulation for i, simulation in simulations.items() if simulation.round == last}
        launched = {i: self._ahead[i] for i in level} if level.keys() <= self._ahead.keys() else self._launch(level)
        coming = {i: simulation for i, simulation in level.items() if simulation.foresees(launched[i])}
        # Those that wait for the others join them in the next round: it cannot be begun without them.
        self._ahead = self._launch(coming, launched) if coming and len(level) == len(simulations) else {}
        for i, simulation in level.items():
            try:
                record = simulation.complete(launched[i])
            except DivergedError as error:
                self._leave(i, str(error))
            else:
                self._running[i].add(record)
                self._course.on_round(i, record, self._running[i].recipe)

    def _launch(self, simulations: Mapping[int, Simulation], behind: Mapping[int, Launched] | None = None) -> dict[int, Launched]:
        """Hand a round of each to the device, all at the same one.

        Args:
            behind: the rounds before them, where they are not complete yet.
        """
        with use_threads(max(simulation.threads.training for simulation in simulations.values())):
            gatherings = {i: simulation.begin(behind[i] if behind else None) for i, simulation in simulations.items()}
            made = one_round(list(gatherings.values()), self._engine)
            return {i: simulations[i].launched(gathering, after) for (i, gathering), after in zip(gatherings.items(), made, strict=True)}


def shape_of(recipe: Recipe) -> str:
    """What must be equal for recipes to train together; numbers in the local step may differ.

    Example:
        >>> shape_of(Recipe(step="sgd(lr=0.1)")) == shape_of(Recipe(step="sgd(lr=0.5)", server="momentum()", seed=3))
        True
    """
    client = [registry.without_numbers(spec) for spec in recipe.client_specs]
    return repr((recipe.data, recipe.preprocess, recipe.model, recipe.epochs, recipe.batch_size, client, recipe.objective))


def _grouped(numbers: Iterable[int], key: Callable[[int], Key]) -> dict[Key, list[int]]:
    """Numbers with equal keys, in the order in which they first come."""
    groups: dict[Key, list[int]] = {}
    for i in numbers:
        groups.setdefault(key(i), []).append(i)
    return groups
