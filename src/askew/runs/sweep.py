"""Many configurations at once: learning rates, momenta, thresholds, seeds, populations as one more batch axis.

Recipes whose local training has the same shape (network, data, batches, pieces) train together, all clients of all of
them in one computation, each with its own weights, rates, streams and population; the others go one after the other.
A configuration's result is what it would be alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError
from askew.core.tensors import ModelState
from askew.core.recipe import Recipe
from askew.core.registry import build, without_numbers
from askew.runs import run
from askew.engine.choice import choose, make_engine
from askew.rounds.round import one_round
from askew.rounds.simulation import Launched, Record, Simulation
from askew.runs.run import Result, Running, types_of, was_compiled
from askew.runs.run_folder import INTERRUPTED, RunFolder, describe_environment
from askew.engine.protocol import Engine
from askew.engine.task import Task, available, build_task, initial_model
from askew.engine.threads import threads_for, use_threads

SAVING_SHARE = 0.05  # of the time, at most, goes into checkpoints

@dataclass(frozen=True)
class Outcome:
    """One configuration of a sweep: its result, or why it stopped.

    Args:
        diverged: why training broke off, if it did.
        together: configurations that it trained together with, itself included.
    """

    recipe: Recipe
    result: Result
    diverged: str | None = None
    together: int = 1


def grid(base: Recipe, axes: Mapping[str, Sequence[Any]]) -> list[Recipe]:
    """All combinations of settings, the last axis fastest.

    Args:
        axes: address of a setting (`sgd.lr`, `seed`, `momentum.beta`) -> its values.

    Example:
        >>> len(grid(Recipe(), {"sgd.lr": [0.01, 0.1], "seed": [0, 1, 2]}))
        6
    """
    recipes = []
    for values in product(*axes.values()):
        recipe = base
        for address, value in zip(axes, values, strict=True):
            recipe = recipe.with_setting(address, value)
        recipes.append(recipe)
    return recipes


def sweep(recipes: Sequence[Recipe], *, data: Dataset | None = None, model: nn.Module | None = None, engine: str = "auto",
          precision: str = "fp32", device: str = "cpu", data_dir: str | None = None, folders: Sequence[Path] | None = None,
          limit_s: float | None = None, on_round: Callable[[int, Record, Recipe], None] | None = None,
          on_end: Callable[[int, Outcome], None] | None = None) -> list[Outcome]:
    """Train recipes, those of equal shape together.

    Args:
        recipes: the configurations.
        data, model: objects of your own in place of what the recipes name.
        engine: "auto" and "vectorised" train groups together, any other engine one configuration after the other.
        folders: a run folder for each recipe; nothing is written without them. One that an earlier sweep left behind is
            gone on with from its checkpoint; what it finished, or what diverged, is not trained again.
        limit_s: stop, as Ctrl-C would, at the end of the round in which so many seconds are over.
        on_round: called with (number of the recipe, record, recipe); rounds that an earlier sweep did come first.
        on_end: called with (number of the recipe, outcome) when a configuration is finished, diverged or interrupted.

    Returns:
        one outcome a recipe, in their order; a configuration that diverges does not stop the others. On Ctrl-C, what
        there is so far: the results of what was not finished are `interrupted`.
    """
    began = time.monotonic()
    course = _Course(recipes, folders, None if limit_s is None else began + limit_s, on_round, on_end)
    loaded: dict[str, Dataset] = {}
    groups: dict[Any, list[int]] = {}
    for i in course.left():
        name = str(recipes[i].data)
        if data is None and name not in loaded:  # all before the first round: data that are missing should be missed now
            loaded[name] = build("data", recipes[i].data, data_dir=data_dir).to(available(device))
        groups.setdefault(_shape(recipes[i]), []).append(i)

    def task_of(i: int) -> Task:
        # The start of what is gone on with lies behind: a warm-up need not be trained again.
        recipe = recipes[i].replace(start="random()") if i in course.kept else recipes[i]
        return build_task(recipe, data=loaded[str(recipe.data)] if data is None else data, model=model, device=device, data_dir=data_dir)

    def environment(task: Task, engine: Engine) -> dict[str, Any]:
        return describe_environment(device, engine=engine.name, compiled=getattr(engine, "compiled", False),
                                    training_threads=threads_for(task, engine).training,
                                    precision=precision, data_dir=data_dir,
                                    replaced=types_of(data=data, model=model)) if folders is not None else {}

    try:
        with torch.random.fork_rng(devices=[]):
            for members in groups.values():
                with use_threads(1):  # a few examples to see what a network takes; training has threads of its own
                    tasks = {i: task_of(i) for i in members}
                    engines = _engines(engine, tasks, course.kept)
                for name, mine in engines.items():
                    # All at once where the engine can, else one after the other.
                    for part in _alike(mine, tasks) if name == "vectorised" else [[i] for i in mine]:
                        kept = [course.kept[i].environment for i in part if i in course.kept]
                        with use_threads(1):
                            made = make_engine(name, tasks[part[0]], precision, len(part), was_compiled(kept[0]) if kept else None)
                        # It may have fallen back on an engine that trains one configuration.
                        for some in [part] if made.name == "vectorised" else [[i] for i in part]:
                            fitting = made if some[0] == part[0] else make_engine(made.name, tasks[some[0]])
                            course.train({i: tasks[i] for i in some}, fitting, environment(tasks[some[0]], fitting))
    except KeyboardInterrupt:
        pass  # what was under way has been kept, and its outcome says that it was interrupted
    return [course.outcome(i) for i in range(len(recipes))]


class _Course:
    """The configurations on their way: which are over, which have a folder to go on from."""

    def __init__(self, recipes: Sequence[Recipe], folders: Sequence[Path] | None, deadline: float | None,
                 on_round: Callable[[int, Record, Recipe], None] | None, on_end: Callable[[int, Outcome], None] | None) -> None:
        self.recipes, self.folders, self.deadline = recipes, folders, deadline
        self.on_round = on_round or (lambda i, record, recipe: None)
        self.on_end = on_end or (lambda i, outcome: None)
        self.kept: dict[int, RunFolder] = {}  # with a checkpoint
        self.over: dict[int, Outcome] = {}
        self._starts: dict[Any, ModelState] = {}
        for i, path in enumerate(folders or []):
            self._look(i, path)

    def _look(self, i: int, path: Path) -> None:
        RunFolder.check_free(path, overwrite=True)
        if not path.exists() or not any(path.iterdir()):
            return
        folder, recipe = RunFolder.open(path), self.recipes[i]
        if folder.recipe != recipe.replace(name=folder.recipe.name):
            raise AskewError(f"{str(path)!r} holds a run of another recipe; go on with the settings it began with, or name another folder")
        diverged = folder.divergence
        if diverged is not None or folder.is_finished:
            result = Result(recipe, folder.records(), folder.load_weights("model"), folder.seconds, folder=path)
            for record in result.records:
                self.on_round(i, record, recipe)
            self._end(i, Outcome(recipe, result, diverged))
        elif folder.has_checkpoint:
            self.kept[i] = folder
        # Else it was stopped before its first checkpoint, and is done again.

    def left(self) -> list[int]:
        return [i for i in range(len(self.recipes)) if i not in self.over]

    def outcome(self, i: int) -> Outcome:
        """What became of a configuration; one that was not reached has what an earlier sweep left."""
        if i in self.over:
            return self.over[i]
        records, seconds = (self.kept[i].records(), self.kept[i].seconds) if i in self.kept else ([], 0.0)
        return Outcome(self.recipes[i], Result(self.recipes[i], records, {}, seconds, interrupted=True,
                                               folder=self.folders[i] if self.folders else None))

    def train(self, tasks: Mapping[int, Task], engine: Engine, environment: Mapping[str, Any]) -> None:
        """Rounds in lockstep; a configuration leaves when it is finished or diverges."""
        running: dict[int, Running] = {}

        def leave(i: int, stopped: str | None = None) -> None:
            result = running[i].end(stopped)
            del running[i]
            if self.folders is not None:  # all is on disk: hundreds of configurations need not stay in memory
                result = replace(result, simulation=None)
            self._end(i, Outcome(self.recipes[i], result, None if result.interrupted else stopped, len(tasks)))

        try:
            for i, task in tasks.items():
                self._check_time()
                running[i] = self._begin(i, task, engine, environment)
            saved, took = time.monotonic(), 0.0
            ahead: dict[int, Launched] = {}  # the coming round, where the device has it already
            while True:
                for i in [i for i, r in running.items() if r.simulation.finished]:
                    leave(i)
                if not running:
                    break
                self._check_time()
                # A step has one round number (for the rates' decay): those that lag behind catch up first.
                last = min(r.simulation.round for r in running.values())
                level = {i: r.simulation for i, r in running.items() if r.simulation.round == last}
                launched = {i: ahead[i] for i in level} if level.keys() <= ahead.keys() else _launch(level, engine)
                coming = {i: simulation for i, simulation in level.items() if simulation.foresees(launched[i])}
                # Those that wait for the others join them in the next round: it cannot be begun without them.
                ahead = _launch(coming, engine, launched) if coming and len(level) == len(running) else {}
                for i, simulation in level.items():
                    try:
                        record = simulation.complete(launched[i])
                    except DivergedError as error:
                        leave(i, str(error))
                    else:
                        running[i].add(record)
                        self.on_round(i, record, self.recipes[i])
                if time.monotonic() - saved > max(run.CHECKPOINT_SECONDS, took / SAVING_SHARE):
                    saved = time.monotonic()
                    for r in running.values():
                        r.save()
                    took = time.monotonic() - saved
        except KeyboardInterrupt:
            for i in list(running):
                leave(i, INTERRUPTED)
            raise

    def _begin(self, i: int, task: Task, engine: Engine, environment: Mapping[str, Any]) -> Running:
        recipe = self.recipes[i]
        if i not in self.kept:
            folder = RunFolder.create(self.folders[i], recipe, environment, overwrite=True) if self.folders is not None else None
            with use_threads(threads_for(task, engine).training):
                start = self._start(task)
            return Running(Simulation(task, engine, start=start), recipe, folder)
        folder = self.kept[i]
        running = Running.from_checkpoint(Simulation(task, engine), recipe, folder, folder.load_checkpoint())
        for record in running.records:
            self.on_round(i, record, recipe)
        return running

    def _start(self, task: Task) -> ModelState:
        """The first weights. Configurations may share a warm-up, which depends on nothing but what is named here."""
        recipe = task.recipe
        if recipe.start.name != "warm_up":
            return initial_model(task)
        key = (recipe.seed, *(str(getattr(recipe, name)) for name in ("data", "preprocess", "model", "step", "batch_size", "start")),
               task.population.server.tobytes())
        if key not in self._starts:
            self._starts[key] = initial_model(task)
        return self._starts[key]

    def _end(self, i: int, outcome: Outcome) -> None:
        self.over[i] = outcome
        self.on_end(i, outcome)

    def _check_time(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise KeyboardInterrupt


def _launch(simulations: Mapping[int, Simulation], engine: Engine, behind: Mapping[int, Launched] | None = None) -> dict[int, Launched]:
    """Hand a round of each to the device, all at the same one; `behind` are the rounds before them if they are not complete yet."""
    with use_threads(max(simulation.threads.training for simulation in simulations.values())):
        gatherings = {i: simulation.begin(behind[i] if behind else None) for i, simulation in simulations.items()}
        made = one_round(list(gatherings.values()), engine)
        return {i: simulations[i].launched(gathering, after) for (i, gathering), after in zip(gatherings.items(), made, strict=True)}


def _engines(asked: str, tasks: Mapping[int, Task], kept: Mapping[int, RunFolder]) -> dict[str, list[int]]:
    """Engine -> who trains with it. What is gone on with keeps the engine that it began with, for the same bits."""
    first = next(iter(tasks.values()))
    # One configuration may suit another engine; many small ones are what batching is for.
    auto = choose(first, lanes=len(tasks)) if asked == "auto" else asked
    result: dict[str, list[int]] = {}
    for i in tasks:
        name = kept[i].environment.get("engine", auto) if asked == "auto" and i in kept else auto
        result.setdefault(name, []).append(i)
    return result


def _alike(numbers: Sequence[int], tasks: Mapping[int, Task]) -> list[list[int]]:
    """Those whose networks are alike in what is not trained: an engine has one network for all that it trains together."""
    groups: dict[str, list[int]] = {}
    for i in numbers:
        groups.setdefault(tasks[i].untrained, []).append(i)
    return list(groups.values())


def _shape(recipe: Recipe) -> Any:
    """What must be equal for recipes to train together; numbers in the local step may differ."""
    client = [without_numbers(spec) for spec in recipe.client_specs]
    return repr((recipe.data, recipe.preprocess, recipe.model, recipe.epochs, recipe.batch_size, client, recipe.objective))
