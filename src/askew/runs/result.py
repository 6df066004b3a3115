"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from askew.core.arguments import checked
from askew.core.errors import AskewError
from askew.core.objective import Objective, objective_of
from askew.core.recipe import Recipe
from askew.rounds.left_out import totals
from askew.rounds.simulation import Record, Simulation
from askew.runs.evaluation import EVALUATION, evaluate_run, read_evaluation


@dataclass(frozen=True)
class Result:
    """One run: finished, interrupted, diverged or failed.

    Args:
        records: one per round; those of evaluated rounds have `loss` and the objective's measures (`accuracy`).
        model: the state dict of the model to use.
        seconds: wall time of all sessions, from its first round on.
        interrupted: whether it was stopped before its last round.
        folder: where it was written, if it was.
        simulation: all that it computed on, where that is kept.
        diverged: why training broke off, if it did.
        together: configurations that were trained at once, this one included.
        failed: the error that broke it off, if one did; it can be gone on with from its last round.
        judged_on: what the headline was taken on, in words: the whole test set, or the clients' own test data.
        stopped_early: why there are fewer rounds than the recipe has, where held-out examples said so; it is finished.
    """

    recipe: Recipe
    records: list[Record]
    model: dict[str, Tensor]
    seconds: float
    interrupted: bool = False
    folder: Path | None = None
    simulation: Simulation | None = field(default=None, repr=False)
    diverged: str | None = None
    together: int = 1
    failed: str | None = None
    judged_on: str = ""
    stopped_early: str | None = None

    @property
    def finished(self) -> bool:
        """Whether it reached its last round, or the one in which held-out examples ended it."""
        return not self.interrupted and self.diverged is None and self.failed is None

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

    @checked
    def rounds_to(self, target: float) -> int | None:
        """The first round whose headline was as good as that."""
        return next((record["round"] for record in self.evaluations
                     if self.objective.reached(record[self.headline], target)), None)

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """What the final models are worth, in detail: further measures, per class and per client.

        From evaluation.json where the run has a folder, else computed now; docs/results.md says what it holds.

        Example:
            >>> result = askew.run(askew.Recipe(rounds=2))
            >>> result.evaluation["judged_on"], len(result.evaluation["clients"]["score"])
            ('the whole test set (360 examples)', 10)
        """
        if self.finished and self.folder is not None and (self.folder / EVALUATION).exists():
            return read_evaluation(self.folder / EVALUATION)
        if self.simulation is not None:
            return evaluate_run(self.simulation, self.records)
        if self.folder is not None:
            return read_evaluation(self.folder / EVALUATION)
        raise AskewError("the result holds numbers only, and no folder keeps its models; train with out=... (or "
                         "folders=...) for an evaluation")

    @property
    def dropped(self) -> dict[str, int]:
        """Updates that were left out, by reason: clients that dropped out or were late, and what a guard refused."""
        return totals(self.records)

    @checked
    def total(self, name: str) -> float:
        """The sum of a number over all rounds, such as `bytes_up`."""
        return sum(record.get(name, 0) for record in self.records)
