"""Methods side by side: same data, same federation, same first weights, same number of rounds, several seeds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from askew.core import files, registry
from askew.core.arguments import checked
from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.objective import objective_of
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.engine.build import build_task
from askew.engine.choice import check_engine
from askew.engine.task import Task
from askew.engine.threads import use_threads
from askew.pieces.probe import accuracy_on_devices_of
from askew.rounds.record import Record
from askew.runs.cluster import Cluster
from askew.runs.comparison import Comparison, Contender
from askew.runs.configuration import Configuration, Means
from askew.runs.driver import drive
from askew.runs.environment import describe_environment
from askew.runs.folders import check_many, held
from askew.runs.judge import Judge, majority_accuracy
from askew.runs.pace import Every
from askew.runs.result import Result

TABLE = "table.json"
# Trained together: with more, each takes less time; with fewer, more of them are finished when a comparison is stopped.
SEEDS_AT_ONCE = 4


@checked
def compare(recipes: Mapping[str, Recipe], seeds: Sequence[int], *, target: float | None = None, engine: str = "auto",
            device: str = "cpu", data_dir: str | None = None, out: str | Path | None = None, go_on: bool = False,
            retry_failed: bool = False, checkpoint_every: str | int | None = None,
            on_round: Callable[[Record, Recipe], None] | None = None, cluster: Cluster | None = None) -> Comparison:
    """Run every recipe with every seed, and judge all by one measure.

    All recipes are built and checked before the first one runs. Seeds go four at a time, and methods whose local
    training has the same shape train together on all four: whenever it is stopped, methods have been compared on the
    same seeds, but for the last four. "auto" takes for each run the engine that it would have alone, so that its
    numbers are those of `askew.run`.

    Args:
        recipes: label -> recipe; their seeds do not matter. Where one of them is judged by devices (its pool or its
            population is about devices, or `judge` says so), all are, unless one says "global".
        seeds: of the federation, the first weights and everything else; the same for all recipes.
        target: the accuracy to which rounds are counted; None takes 95% of what centralised training reaches.
        engine, device, data_dir: as in `askew.run`.
        out: a folder, which gets table.json and a run folder for each recipe and seed; nothing is written without one.
        go_on: the folder holds an interrupted comparison: keep what finished, diverged or failed, resume
            what was under way, do the rest.
        retry_failed: then continue what failed, too.
        checkpoint_every: as in `askew.run`.
        on_round: called with each round's record; the rounds that a run which broke off did not
            reach come as empty records.
        cluster: a Ray cluster whose machines train them.

    Returns:
        the comparison; on Ctrl-C, of what was finished.

    Example:
        >>> short = askew.Recipe(rounds=2)
        >>> compared = compare({"fedavg": fedavg(short), "fednnnn": fednnnn(short)}, seeds=[0, 1])
        >>> [(row["name"], len(row["accuracies"])) for row in compared.as_mapping()["methods"]]
        [('fedavg', 2), ('fednnnn', 2)]
    """
    _check(recipes, seeds, target)
    check_engine(engine, "fp32", several=True)
    if out is not None:
        check_many(Path(out), go_on and Path(out).exists(), "comparison")
    began = time.monotonic()
    with use_threads(1):
        contenders, judge, majority = _prepare(recipes, seeds[0], device, data_dir)
    names = _folder_names(recipes)
    tell = on_round or (lambda record, recipe: None)

    def tell_missing(_: int, result: Result) -> None:
        for _ in range(0 if result.finished or result.interrupted else result.recipe.rounds - len(result.records)):
            tell({}, result.recipe)

    configurations = [Configuration(contender.recipe.replace(seed=seed),
                                    None if out is None else Path(out) / f"{names[label]}-seed{seed}",
                                    go_on=True, retry=retry_failed, wave=at // SEEDS_AT_ONCE)
                      for at, seed in enumerate(seeds) for label, contender in contenders.items()]
    means = Means(engine, device=device, data_dir=data_dir, as_alone=True, checkpoint_every=Every.of(checkpoint_every))
    with held(None if out is None else Path(out), "comparison"):
        results = drive(configurations, means, keep=False, on_round=lambda _, record, recipe: tell(record, recipe),
                        on_end=tell_missing, cluster=cluster)
    # A run half done is no result: --resume continues it.
    over = {label: tuple(replace(result, model={})
                         for result in results[at :: len(contenders)] if not result.interrupted)
            for at, label in enumerate(contenders)}
    done = Comparison(tuple(replace(contender, results=over[label]) for label, contender in contenders.items()),
                      tuple(seeds), judge, target, majority, time.monotonic() - began,
                      any(result.interrupted for result in results), None if out is None else Path(out))
    if out is not None:
        write_table(Path(out), done.as_mapping(), device, engine)
    return done


def write_table(folder: Path, table: Mapping[str, Any], device: str, engine: str) -> None:
    """table.json: the numbers, and the machine and versions that they come from."""
    files.write_json(folder / TABLE, {**table, "environment": describe_environment(device, engine=engine)})


def _check(recipes: Mapping[str, Recipe], seeds: Sequence[int], target: float | None) -> None:
    if not recipes or not seeds:
        raise AskewError(f"there is nothing to compare: {len(recipes)} methods with {len(seeds)} seeds; give at least "
                         "one of each")
    if len(set(seeds)) < len(seeds):
        raise AskewError(f"seeds {list(seeds)} name one twice; the same run again is no further evidence")
    if target is not None and not 0 < target <= 1:
        raise AskewError(f"target must be an accuracy in (0, 1], got {target}")
    for label, recipe in recipes.items():
        if recipe.stop_after_no_gain:
            raise AskewError(f"{label}: methods are compared after the same number of rounds; take "
                             f"stop_after_no_gain={recipe.stop_after_no_gain} out of the recipe")
        if (headline := objective_of(recipe).headline) != "accuracy":
            raise AskewError(f"{label}: methods are compared by accuracy, and {recipe.objective.name} is judged by "
                             f"{headline}; train them with askew sweep")


def _prepare(recipes: Mapping[str, Recipe], seed: int, device: str,
             data_dir: str | None) -> tuple[dict[str, Contender], Judge, float | None]:
    """All recipes built once, so that a mistake in the last one is found before the first one runs."""
    loaded: dict[str, Dataset] = {}
    tasks: dict[str, Task] = {}
    for label, recipe in recipes.items():
        if str(recipe.data) not in loaded:
            loaded[str(recipe.data)] = registry.build("data", recipe.data, data_dir=data_dir)
        try:
            tasks[label] = build_task(recipe.replace(seed=seed), data=loaded[str(recipe.data)], device=device)
        except AskewError as error:
            raise AskewError(f"{label}: {error}") from None
    judge = _judge_for_all(tasks.values())
    federation = next((task for task in tasks.values() if task.num_clients > 1), None)
    majority = None
    if judge == "devices" and federation is not None:
        majority = majority_accuracy(federation.population, federation.data.test.y.cpu().numpy())
    contenders = {}
    for label, task in tasks.items():
        # Every run records the accuracy on the whole test set and on the devices; which one counts is decided here.
        recipe = recipes[label].replace(judge="global")
        if judge == "devices" and federation is not None and not task.personal:
            recipe = _on_same_devices(recipe, federation.recipe.population.scheme)
        contenders[label] = Contender(label, recipe, task.personal, task.population.is_one_place)
    return contenders, judge, majority


def _on_same_devices(recipe: Recipe, federation: Spec) -> Recipe:
    """With a probe, where the recipe's own clients are not exactly those that the scheme gives."""
    if recipe.population == PopulationSpec(federation):
        return recipe
    return recipe.replace(probes=(*recipe.probes, accuracy_on_devices_of(str(federation))))


def _judge_for_all(tasks: Any) -> Judge:
    asked = {task.recipe.judge for task in tasks}
    if asked != {"auto"}:
        return "global" if "global" in asked else "devices"
    by_devices = any(task.personal or task.population.test is not None for task in tasks)
    return "devices" if by_devices else "global"


def _folder_names(labels: Mapping[str, Any]) -> dict[str, str]:
    """`fedprox(mu=0.1)` -> `fedprox-mu=0.1`; names that become equal get a number."""
    names: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^\w.=+]+", "-", label).strip("-.")[:80] or "method"
        low = plain.casefold()  # some disks do not tell A from a
        taken = sum(name.casefold() == low or name.casefold().startswith(f"{low}--") for name in names.values())
        names[label] = f"{plain}--{taken + 1}" if taken else plain
    return names
