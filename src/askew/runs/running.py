"""A run under way: what it computes, what it has recorded, and the folder that keeps both."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from askew.core import interrupt
from askew.core.errors import AskewError, LostError, first_line
from askew.core.interrupt import shielded
from askew.core.pool import MANY_CLIENTS
from askew.core.recipe import Recipe
from askew.engine.functional import state_dict_of
from askew.engine.peers import Peers
from askew.rounds.lasting import check_lasting
from askew.rounds.left_out import totals
from askew.rounds.record import Record
from askew.rounds.simulation import Simulation
from askew.runs.evaluation import EVALUATION, evaluate_run
from askew.runs.model_file import PERSONAL, write_model
from askew.runs.result import Result
from askew.runs.run_folder import FAILED, INTERRUPTED, RunFolder


class Running:
    """A run under way.

    Args:
        recipe: as the run was asked for.
        folder: nothing is written without one.
        records: of the rounds that lie behind.
        seconds: that earlier sessions took.
        about: what it belongs to, for checkpoints: fingerprints of its data.
    """

    def __init__(self, simulation: Simulation, recipe: Recipe, folder: RunFolder | None = None,
                 records: Sequence[Record] = (), seconds: float = 0.0, about: Mapping[str, Any] | None = None) -> None:
        self.simulation, self.recipe, self.folder, self.records = simulation, recipe, folder, list(records)
        self._began, self._about = time.monotonic() - seconds, about or {}
        self._evaluation: dict[str, Any] | None = None
        self._unsaved = False  # it has been said that a piece keeps what no checkpoint can hold

    @classmethod
    def from_checkpoint(cls, simulation: Simulation, recipe: Recipe, folder: RunFolder,
                        about: Mapping[str, Any]) -> Running:
        """Go on from what a folder's checkpoint holds; warns where its bits may not be those of an unbroken run."""
        now, environment = simulation.threads.training, folder.environment
        before = environment.get("training_threads", environment.get("threads", now))
        if simulation.engine.one_at_a_time and before != now:  # the other engines give the same bits with any number
            warnings.warn(f"{folder.path} was begun on {before} thread{'s' if before > 1 else ''} and goes on with "
                          f"{now}: weights may differ in their last bits from those of an unbroken run; for the same, "
                          f"set OMP_NUM_THREADS={before}",
                          stacklevel=2)
        folder.hold()
        try:
            simulation.state, seconds = folder.load_checkpoint(simulation.task.device, about)
            return cls(simulation, recipe, folder, folder.records(), seconds, about)
        except BaseException:
            folder.release()
            raise

    def spread(self, peers: Peers) -> None:
        """The first process has read a checkpoint: all go on from it."""
        self.simulation.spread()
        self.records = peers.first(self.records)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self.folder:
            self.folder.append(record)

    def save(self) -> None:
        """A checkpoint."""
        self.simulation.collect()
        self._save()

    def _save(self) -> None:
        if self.folder:
            state = self.simulation.state
            try:
                check_lasting(self.simulation.task, state)  # it may have become another since the run began
            except AskewError as error:
                if not self._unsaved:
                    warnings.warn(f"{self.folder.path} is no longer saved, and resumed from an earlier checkpoint at "
                                  f"best: {error}", stacklevel=2)
                self._unsaved = True
                return
            with shielded():
                self.folder.save_checkpoint(state, {**self._about, "seconds": round(self.seconds, 3)})

    def _collected(self) -> bool:
        """Whether all that clients remember is here, also of other processes: where one is gone, its clients' is, and
        the last checkpoint stays."""
        try:
            self.simulation.collect()
        except LostError:
            warnings.warn(f"no checkpoint after round {self.simulation.round}: what clients remember that another "
                          "process trained is lost with it; the checkpoint before stays", stacklevel=2)
            return False
        return True

    def evaluate(self) -> None:
        """Judge the final models in detail, for the folder; a run whose objective cannot be judged so ends without."""
        self.simulation.collect()
        if self.folder:
            try:
                self._evaluation = evaluate_run(self.simulation, self.records)
            except Exception as error:  # of an objective of the user's, or no memory: no reason to lose a trained model
                if interrupt.came():  # what it raised has come out as another error
                    raise KeyboardInterrupt from error
                warnings.warn(f"{self.folder.path} gets no {EVALUATION}: {first_line(error)}", stacklevel=2)

    def end(self, stopped: str | None = None, together: int = 1, failed: str | None = None) -> Result:
        """Write the end, at the last round or before it; shielded, so that it is written whole.

        Args:
            stopped: `INTERRUPTED`, `FAILED`, or why training broke off.
            together: configurations that were trained at once.
            failed: the error, of one that failed.
        """
        simulation = self.simulation
        # A round that was under way left no trace; one that was just done may not have reached the records yet.
        if len(self.records) < simulation.round:
            self.records.append(simulation.last_record)
        seconds, goes_on = self.seconds, stopped in (INTERRUPTED, FAILED)
        with_memory = self._collected()
        if self.folder:
            with shielded():
                try:
                    if goes_on:
                        # The interruption may have come before the last one was appended.
                        self.folder.rewrite(self.records)
                        if with_memory:
                            self._save()
                    _write_models(simulation, self.folder)
                    self.folder.save_evaluation(self._evaluation)
                    summary = _summary(simulation, self.records, seconds, stopped, together)
                    self.folder.save_summary(summary if failed is None else {**summary, FAILED: failed})
                    if stopped is None:
                        self.folder.checkpoints.drop()
                finally:
                    self.folder.release()
        model = state_dict_of(simulation.task.module, simulation.view(_most_used(simulation)))
        return Result(self.recipe, self.records, model, seconds, stopped == INTERRUPTED,
                      self.folder.path if self.folder else None, simulation, None if goes_on else stopped,
                      together, failed, simulation.judged_on, simulation.stopped_early)


def _write_models(simulation: Simulation, folder: RunFolder) -> None:
    """All models, and what one needs to use them; those that training would go on from too, where they are others."""
    first, written = _most_used(simulation), {PERSONAL}
    numbers = [first, *(number for number in simulation.models if number != first)]
    names = {number: "model" if number == first else f"model-{number}" for number in numbers}
    for number, entry in simulation.models.items():
        view = simulation.view(number)
        folder.save_weights(names[number], state_dict_of(simulation.task.module, view))
        written.add(names[number])
        if any(view.params[name] is not v for name, v in entry.model.params.items()):
            training = names[number].replace("model", "training")
            folder.save_weights(training, state_dict_of(simulation.task.module, entry.model))
            written.add(training)
    folder.drop_other_weights(written)  # of models that have died since an interruption
    write_model(simulation, folder, {number: f"{name}.safetensors" for number, name in names.items()})


def _summary(simulation: Simulation, records: Sequence[Record], seconds: float, stopped: str | None,
             together: int) -> dict[str, Any]:
    headline, best = simulation.task.objective.headline, max if simulation.task.objective.higher_is_better else min
    evaluated = [record for record in records if headline in record]
    last = evaluated[-1] if evaluated else {}
    summary: dict[str, Any] = {
        "name": simulation.task.recipe.name, headline: last.get(headline), "judged_on": simulation.judged_on,
        "loss": last.get("loss"),
        f"best_{headline}": best((r[headline] for r in evaluated), default=None), "rounds": simulation.round,
        "seed": simulation.task.recipe.seed, "seconds": round(seconds, 3), "together": together, "stopped": stopped,
        "bytes_up": sum(r["bytes_up"] for r in records), "bytes_down": sum(r["bytes_down"] for r in records),
        "population": dict(simulation.task.population.describe()),
    }
    if simulation.stopped_early is not None:
        summary["stopped_early"] = simulation.stopped_early
    if dropped := totals(records):
        summary["dropped"] = dropped
    if len(simulation.models) > 1:
        summary["models"] = sorted(simulation.models)
        if simulation.task.num_clients <= MANY_CLIENTS:
            summary["choice"] = np.asarray(simulation.task.pool.choice(simulation.pool_state)).tolist()
    return summary


def _most_used(simulation: Simulation) -> int:
    return int(np.bincount(np.asarray(simulation.task.pool.choice(simulation.pool_state))).argmax())
