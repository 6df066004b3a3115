"""What a run came to."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from askew.core import files
from askew.core.arguments import checked
from askew.core.errors import AskewError
from askew.core.objective import Objective, objective_of
from askew.core.recipe import Recipe
from askew.rounds.left_out import in_words, totals
from askew.rounds.record import Record
from askew.rounds.simulation import Simulation
from askew.runs.evaluation import EVALUATION, evaluate_run, read_evaluation


@dataclass(frozen=True, repr=False)
class Result:
    """One run: finished, interrupted, diverged or failed.

    It can be pickled; what it computed on (`simulation`) is left out then, its evaluation is not.

    Args:
        records: one per round; those of evaluated rounds have `loss` and the objective's measures (`accuracy`).
        model: the state dict of the model to use.
        seconds: wall time of all sessions, from its first round on.
        interrupted: whether it was stopped before its last round.
        folder: where it was written, if it was.
        simulation: all that it computed on, where that is kept.
        diverged: why training broke off, if it did.
        together: configurations that were trained at once, this one included.
        failed: the error that broke it off, if one did; it can be resumed from its last round.
        judged_on: what the headline was taken on, in words: the whole test set, or the clients' own test data.
        stopped_early: why there are fewer rounds than the recipe has, where held-out examples said so; it is finished.
        data_name: of data that were given in place of those that the recipe names.
    """

    recipe: Recipe
    records: list[Record]
    model: dict[str, Tensor]
    seconds: float
    interrupted: bool = False
    folder: Path | None = None
    simulation: Simulation | None = None
    diverged: str | None = None
    together: int = 1
    failed: str | None = None
    judged_on: str = ""
    stopped_early: str | None = None
    data_name: str = ""

    def __repr__(self) -> str:
        return f"<askew.Result {self.title}: {self.outcome}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = {"result": self.outcome, "judged on": self.judged_on, "population": str(self.recipe.population),
                "dropped": in_words(self.dropped) if self.dropped else "", "stopped early": self.stopped_early,
                "folder": "" if self.folder is None else str(self.folder)}
        lines = "".join(f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{escape(value)}</td>"
                        "</tr>" for name, value in rows.items() if value)
        return f"<table><caption style='text-align:left'>{escape(self.title)}</caption>{lines}</table>"

    def __getstate__(self) -> dict[str, Any]:
        with contextlib.suppress(AskewError):
            _ = self.evaluation  # kept from now on: without the simulation it could not be computed
        return {name: value for name, value in self.__dict__.items() if name not in ("simulation", "objective")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, simulation=None)

    @property
    def title(self) -> str:
        """Which run it is, in a few words."""
        return f"{self.recipe.name} on {self.data_name or self.recipe.data.name}, seed {self.recipe.seed}"

    @property
    def outcome(self) -> str:
        """What became of it, in one line.

        Example:
            >>> askew.run(askew.Recipe(rounds=2)).outcome
            'accuracy 37.22% after 2 rounds'
        """
        rounds = f"{len(self.records)} round{'s' if len(self.records) != 1 else ''}"
        score = (f"{self.headline.replace('_', ' ')} {self.objective.shown(self.score)} after {rounds}"
                 if self.evaluations else f"not evaluated, {rounds}")
        state = (f"failed: {self.failed}" if self.failed else f"diverged: {self.diverged}" if self.diverged else
                 f"interrupted, {self.recipe.rounds} were asked for" if self.interrupted else
                 "stopped early" if self.stopped_early else "")
        return f"{score}, {state}" if state else score

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

    @checked
    def to_pandas(self, what: Literal["rounds", "clients"] = "rounds") -> Any:
        """A data frame of pandas (`pip install askew[notebook]`).

        Args:
            what: "rounds": a row for each, as records have it, its number as the index; "clients": a row for each, by
                name, with group, training examples, model, score and examples of each class.

        Example:
            >>> askew.run(askew.Recipe(rounds=2)).to_pandas("clients").shape  # 4 columns and 10 classes
            (10, 14)
        """
        try:
            import pandas
        except ImportError:
            raise AskewError("to_pandas needs pandas, which is not installed; pip install 'askew[notebook]'") from None
        if what == "rounds":
            return pandas.DataFrame(self.records).set_index("round") if self.records else pandas.DataFrame()
        clients, classes = self.evaluation["clients"], self.evaluation["classes"]
        if clients is None:
            raise AskewError("to_pandas: a run of more than 10,000 clients keeps no numbers of each one")
        columns = {name: clients[name] for name in ("group", "examples", "model", "score")}
        if clients["label_counts"] is not None:
            columns |= {f"examples of {name}": list(counts)
                        for name, counts in zip(classes, zip(*clients["label_counts"], strict=True), strict=True)}
        return pandas.DataFrame(columns, index=pandas.Index(clients["name"], name="client"))

    @checked
    def plot(self, path: str | Path | None = None) -> Any:
        """The headline over rounds, and each client's score at the end.

        Args:
            path: .png, .svg or .pdf to write it to; a notebook shows the figure by itself.

        Returns:
            matplotlib's figure.
        """
        from askew.report.result_plot import plot_result

        return plot_result(self, path)

    @checked
    def report(self, path: str | Path) -> Path:
        """The run as one HTML page, which opens without a network.

        Args:
            path: the file; one that exists is refused.
        """
        from askew.report.page import write_page

        return write_page([self], files.check_new(path, "page", "name another file, or remove it first"))
