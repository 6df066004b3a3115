"""Run a recipe to its end: the one call behind `askew run`, `askew resume` and `askew.run`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError
from askew.core.objective import Objective, objective_of
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.engine.choice import make_engine
from askew.rounds.simulation import Record, Simulation
from askew.runs.run_folder import INTERRUPTED, RunFolder, describe_environment
from askew.engine.task import build_task
from askew.engine.threads import use_threads

CHECKPOINT_SECONDS = 60.0  # at most this much work is lost to a power cut; Ctrl-C loses none


@dataclass(frozen=True)
class Result:
    """What a run came to.

    Args:
        records: one per round; those of evaluated rounds have `loss` and the objective's measures (`accuracy`).
        model: the state dict of the model to use.
        interrupted: whether it was stopped before its last round.
        folder: where it was written, if it was.
    """

    recipe: Recipe
    records: list[Record]
    model: dict[str, Tensor]
    seconds: float
    interrupted: bool = False
    folder: Path | None = None
    simulation: Simulation | None = field(default=None, repr=False)

    @cached_property
    def objective(self) -> Objective:
        return objective_of(self.recipe)

    @property
    def headline(self) -> str:
        """The name of the measure that the run is judged by."""
        return self.objective.headline

    @property
    def evaluations(self) -> list[Record]:
        return [record for record in self.records if self.headline in record]

    @property
    def score(self) -> float:
        """The headline at the last evaluation."""
        return float(self.evaluations[-1][self.headline]) if self.evaluations else float("nan")

    @property
    def accuracy(self) -> float:
        """At the last evaluation; NaN where the objective has none."""
        return float(self.evaluations[-1].get("accuracy", "nan")) if self.evaluations else float("nan")

    @property
    def best(self) -> Record:
        """The evaluated round with the best headline."""
        best = max if self.objective.higher_is_better else min
        return best(self.evaluations, key=lambda record: record[self.headline])

    def rounds_to(self, target: float) -> int | None:
        """The first round whose headline was as good as that."""
        return next((record["round"] for record in self.evaluations if self.objective.reached(record[self.headline], target)), None)

    def total(self, name: str) -> float:
        """The sum of a number over all rounds, such as `bytes_up`."""
        return sum(record.get(name, 0) for record in self.records)


def run(recipe: Recipe, *, data: Dataset | None = None, population: Population | None = None, model: nn.Module | None = None,
        engine: str = "auto", precision: str = "fp32", device: str = "cpu", data_dir: str | None = None,
        out: str | Path | None = None, overwrite: bool = False, on_round: Callable[[Record, Recipe], None] | None = None) -> Result:
    """Train a recipe.

    Args:
        recipe: what to do.
        data, population, model: objects of your own in place of what the recipe names.
        engine: how rounds are computed: "auto", or one of `askew.engine.choice.ENGINES`.
        precision: of the vectorised engine on a GPU: "fp32", "tf32" or "bf16".
        device: "cpu", "cuda", ...
        data_dir: where data sets lie.
        out: a folder for the run; nothing is written without one.
        overwrite: replace a run that the folder holds.
        on_round: called with each round's record.

    Returns:
        the result; on Ctrl-C, what there is so far.

    Example:
        >>> result = askew.run(fedavg(askew.Recipe(rounds=2)))
        >>> len(result.records), result.accuracy == result.records[-1]["accuracy"]
        (2, True)
    """
    if out is not None:
        RunFolder.check_free(Path(out), overwrite)
    with torch.random.fork_rng(devices=[]):  # local training seeds the global generator
        with use_threads(1):  # a few examples to see what the network takes; training has threads of its own
            task = build_task(recipe, data=data, population=population, model=model, device=device, data_dir=data_dir)
            made = make_engine(engine, task, precision)
        simulation = Simulation(task, made)
        folder = None
        if out is not None:
            environment = describe_environment(device, engine=made.name, compiled=getattr(made, "compiled", False),
                                               training_threads=simulation.threads.training, precision=precision, data_dir=data_dir,
                                               replaced=types_of(data=data, population=population, model=model))
            folder = RunFolder.create(Path(out), recipe, environment, overwrite)
        return _drive(Running(simulation, recipe, folder), on_round)


def resume(path: str | Path, *, data: Dataset | None = None, population: Population | None = None,
           model: nn.Module | None = None, engine: str = "auto", device: str = "cpu", data_dir: str | None = None,
           on_round: Callable[[Record, Recipe], None] | None = None) -> Result:
    """Go on with an interrupted run; the result is the one it would have had without the break.

    Objects that `run` was given in place of what the recipe names must be given here again.
    """
    folder = RunFolder.open(Path(path))
    own = {"data": data, "population": population, "model": model}
    for name in folder.environment.get("replaced", {}):
        if own[name] is None:
            raise AskewError(f"{str(path)!r} was given a {name} of its own; go on in Python with askew.resume(..., {name}=...)")
    saved, environment = folder.load_checkpoint(), folder.environment
    if engine == "auto":  # the same engine, for the same bits
        engine = environment.get("engine", "auto")
    with torch.random.fork_rng(devices=[]):
        with use_threads(1):
            # The start lies behind: a warm-up need not be trained again.
            task = build_task(folder.recipe.replace(start="random()"), data=data, population=population, model=model, device=device,
                              data_dir=data_dir or environment.get("data_dir"))
            made = make_engine(engine, task, environment.get("precision", "fp32"), compiled=was_compiled(environment))
        simulation = Simulation(task, made)
        return _drive(Running.from_checkpoint(simulation, folder.recipe, folder, saved), on_round)


def was_compiled(environment: Mapping[str, Any]) -> bool | None:
    """Whether a run that is gone on with was compiled, for the same bits; before that was written down, it was on every GPU."""
    return environment.get("compiled", None if str(environment.get("device", "cpu")).startswith("cpu") else True)


def types_of(**own: object) -> dict[str, str]:
    """Of the objects that stand in place of what a recipe names, for the run folder."""
    return {name: type(value).__name__ for name, value in own.items() if value is not None}


class Running:
    """A run under way: what it computes, what it has recorded, and the folder that keeps both.

    Args:
        recipe: as the run was asked for.
        folder: nothing is written without one.
        records: of the rounds that lie behind.
        seconds: that earlier sessions took.
    """

    def __init__(self, simulation: Simulation, recipe: Recipe, folder: RunFolder | None = None, records: Sequence[Record] = (),
                 seconds: float = 0.0) -> None:
        self.simulation, self.recipe, self.folder, self.records = simulation, recipe, folder, list(records)
        self._began = time.monotonic() - seconds

    @classmethod
    def from_checkpoint(cls, simulation: Simulation, recipe: Recipe, folder: RunFolder, saved: Mapping[str, Any]) -> Running:
        """Go on from what a folder's checkpoint holds; warns where its bits may not be those of an unbroken run."""
        now, environment = simulation.threads.training, folder.environment
        before = environment.get("training_threads", environment.get("threads", now))
        if simulation.engine.name == "sequential" and before != now:  # the other engines give the same bits with any number
            warnings.warn(f"{folder.path} was begun on {before} thread{'s' if before > 1 else ''} and goes on with {now}: weights may "
                          f"differ in their last bits from those of an unbroken run; for the same, set OMP_NUM_THREADS={before}",
                          stacklevel=2)
        simulation.state = _to_device(saved, simulation.task.device)
        return cls(simulation, recipe, folder, folder.records(), folder.seconds)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self.folder:
            self.folder.append(record)

    def save(self) -> None:
        """A checkpoint."""
        if self.folder:
            self.folder.save_checkpoint(self.simulation.state)

    def end(self, stopped: str | None = None) -> Result:
        """Write the end, at the last round or before it.

        Args:
            stopped: `INTERRUPTED`, or why training broke off.
        """
        simulation = self.simulation
        # A round that was under way left no trace; one that was just done may not have reached the records yet.
        if len(self.records) < simulation.round:
            self.records.append(simulation.last_record)
        seconds = time.monotonic() - self._began
        if self.folder:
            if stopped == INTERRUPTED:
                self.folder.rewrite(self.records)  # the interruption may have come before the last one was appended
                self.save()
            _write_end(simulation, self.folder, self.records, seconds, stopped)
            if stopped is None:
                self.folder.drop_checkpoint()
        model = simulation.task.state_dict(simulation.view(_most_used(simulation)))
        return Result(self.recipe, self.records, model, seconds, stopped == INTERRUPTED, self.folder.path if self.folder else None,
                      simulation)


def _drive(running: Running, on_round: Callable[[Record, Recipe], None] | None) -> Result:
    last_save = time.monotonic()
    try:
        while not running.simulation.finished:
            record = running.simulation.advance()
            running.add(record)
            if time.monotonic() - last_save > CHECKPOINT_SECONDS:
                running.save()
                last_save = time.monotonic()
            if on_round:
                on_round(record, running.recipe)
    except KeyboardInterrupt:
        return running.end(INTERRUPTED)
    except DivergedError as error:
        running.end(str(error))
        raise
    return running.end()


def _write_end(simulation: Simulation, folder: RunFolder, records: list[Record], seconds: float, stopped: str | None) -> None:
    """Weights and summary."""
    first, written = _most_used(simulation), set()
    for number, entry in simulation.models.items():
        view = simulation.view(number)
        suffix = "" if number == first else f"-{number}"
        folder.save_weights(f"model{suffix}", simulation.task.state_dict(view))
        written.add(f"model{suffix}")
        if any(view.params[name] is not v for name, v in entry.model.params.items()):
            folder.save_weights(f"training{suffix}", simulation.task.state_dict(entry.model))
            written.add(f"training{suffix}")
    folder.drop_other_weights(written)  # of models that have died since an interruption
    headline, best = simulation.task.objective.headline, max if simulation.task.objective.higher_is_better else min
    evaluated = [record for record in records if headline in record]
    last = evaluated[-1] if evaluated else {}
    summary: dict[str, Any] = {
        "name": simulation.task.recipe.name, headline: last.get(headline), "loss": last.get("loss"),
        f"best_{headline}": best((r[headline] for r in evaluated), default=None), "rounds": simulation.round,
        "seed": simulation.task.recipe.seed, "seconds": round(seconds, 3), "stopped": stopped,
        "bytes_up": sum(r["bytes_up"] for r in records), "bytes_down": sum(r["bytes_down"] for r in records),
        "population": dict(simulation.task.population.describe()),
    }
    if len(simulation.models) > 1:
        summary["models"] = sorted(simulation.models)
        summary["choice"] = list(simulation.task.pool.choice(simulation.pool_state))
    folder.save_summary(summary)


def _most_used(simulation: Simulation) -> int:
    choice = list(simulation.task.pool.choice(simulation.pool_state))
    return max(sorted(set(choice)), key=choice.count)


def _to_device(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _to_device(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_to_device(item, device) for item in value)
    return value

