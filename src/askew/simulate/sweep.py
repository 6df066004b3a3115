"""Many configurations at once: learning rates, momenta, thresholds, seeds, populations as one more batch axis.

Recipes whose local training has the same shape (network, data, batches, pieces) train together, all clients of all of
them in one computation, each with its own weights, rates, streams and population; the others go one after the other.
A configuration's result is what it would be alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import nn

from askew.core.dataset import Dataset
from askew.core.errors import DivergedError
from askew.core.recipe import Recipe
from askew.core.registry import build
from askew.simulate.engines import choose, make_engine
from askew.simulate.loop import Record, Simulation
from askew.simulate.run import Result
from askew.simulate.task import Task, build_task
from askew.simulate.vectorised import Lane, Vectorised


@dataclass(frozen=True)
class Outcome:
    """One configuration of a sweep: its result, or why it stopped."""

    recipe: Recipe
    result: Result
    diverged: str | None = None


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
          precision: str = "fp32", device: str = "cpu", data_dir: str | None = None,
          on_round: Callable[[int, Record, Recipe], None] | None = None) -> list[Outcome]:
    """Train recipes, those of equal shape together.

    Args:
        recipes: the configurations.
        data, model: objects of your own in place of what the recipes name.
        engine: "auto" and "vectorised" train groups together, any other engine one configuration after the other.
        on_round: called with (number of the recipe, record, recipe).

    Returns:
        one outcome a recipe, in their order; a configuration that diverges does not stop the others.
    """
    loaded: dict[str, Dataset] = {}

    def task_of(recipe: Recipe) -> Task:
        name = str(recipe.data)
        if data is None and name not in loaded:
            loaded[name] = build("data", recipe.data, data_dir=data_dir).to(device)
        return build_task(recipe, data=loaded[name] if data is None else data, model=model, device=device, data_dir=data_dir)

    groups: dict[Any, list[int]] = {}
    for i, recipe in enumerate(recipes):
        groups.setdefault(_shape(recipe), []).append(i)
    outcomes: dict[int, Outcome] = {}
    with torch.random.fork_rng(devices=[]):
        for members in groups.values():
            tasks = {i: task_of(recipes[i]) for i in members}
            first = tasks[members[0]]
            # One configuration may suit another engine; many small ones are what batching is for.
            name = engine if engine != "auto" else "vectorised" if len(members) > 1 and _batches(first) else choose(first)
            if name == "vectorised":
                outcomes |= _together(tasks, make_engine(name, first, precision), on_round)
            else:
                for i, task in tasks.items():
                    outcomes |= _together({i: task}, make_engine(name, task, precision), on_round)
    return [outcomes[i] for i in range(len(recipes))]


def _together(tasks: Mapping[int, Task], engine: Any, on_round: Callable[[int, Record, Recipe], None] | None) -> dict[int, Outcome]:
    """Rounds in lockstep; a configuration leaves when it is finished or diverges."""
    began = time.monotonic()
    running = {i: Simulation(task, engine) for i, task in tasks.items()}
    records: dict[int, list[Record]] = {i: [] for i in tasks}
    outcomes: dict[int, Outcome] = {}

    def leave(i: int, diverged: str | None = None) -> None:
        simulation = running.pop(i)
        result = Result(simulation.task.recipe, records[i], simulation.task.state_dict(simulation.view()), time.monotonic() - began,
                        simulation=simulation)
        outcomes[i] = Outcome(simulation.task.recipe, result, diverged)

    while running:
        now = dict(running)
        gatherings = {i: simulation.begin() for i, simulation in now.items()}
        lanes = [Lane(now[i].task, g.models, g.jobs, now[i].round) for i, g in gatherings.items()]
        numbers = list(now)
        if isinstance(engine, Vectorised):
            for lane, chunk in engine.train_lanes(lanes):
                gatherings[numbers[lane]].add(chunk)
        else:
            for i, gathering in gatherings.items():
                for chunk in engine.train(gathering.models, gathering.jobs, now[i].round):
                    gathering.add(chunk)
        for i, simulation in now.items():
            try:
                record = simulation.complete(gatherings[i])
            except DivergedError as error:
                leave(i, str(error))
                continue
            records[i].append(record)
            if on_round:
                on_round(i, record, simulation.task.recipe)
            if simulation.finished:
                leave(i)
    return outcomes


def _batches(task: Task) -> bool:
    return choose(task) != "sequential" or not any(isinstance(layer, nn.Conv2d) for layer in task.module.modules())


def _shape(recipe: Recipe) -> Any:
    """What must be equal for recipes to train together; numbers in the local step may differ."""
    step = [(spec.name, [(name, None if isinstance(value, float) else repr(value)) for name, value in spec.args.items()])
            for spec in recipe.step]
    return repr((recipe.data, recipe.preprocess, recipe.model, recipe.epochs, recipe.batch_size, step, recipe.upload))
