"""What a page shows, as plain data: runs, series of them over seeds, the measure that they are judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from askew.core.recipe import Recipe
from askew.report.page.blocks import Choice, Line, Text
from askew.rounds.record import Record
from askew.runs.evaluation import EVALUATION

CLASSES = frozenset({"classification"})  # the tasks whose clients have examples of classes


@dataclass(frozen=True)
class Run:
    """One run, finished or not.

    Args:
        state: "finished", or how it ended and where.
        evaluation: what its final model is worth in detail; None where no evaluation was written.
    """

    recipe: Recipe
    records: Sequence[Record]
    summary: Mapping[str, Any]
    environment: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None
    state: str
    folder: Path | None

    @property
    def finished(self) -> bool:
        return self.state == "finished"

    @property
    def own_data(self) -> str:
        """The name of data that were given in place of those that the recipe names; empty where none were."""
        replaced = self.environment.get("replaced")
        return str(replaced.get("data", "")) if isinstance(replaced, Mapping) else ""

    @property
    def stopped_early(self) -> str:
        """When and why held-out examples ended it; empty where they did not."""
        why = self.summary.get("stopped_early")
        return f"stopped early, after {len(self.records)} of {self.recipe.rounds} rounds: {why}" if why else ""

    @property
    def clients(self) -> Mapping[str, Any] | None:
        """Of its evaluation, where that names clients."""
        return None if self.evaluation is None else self.evaluation.get("clients")

    @cached_property
    def worst_first(self) -> list[int]:
        """Places of the clients that have a score, from the one that fares worst."""
        if self.evaluation is None or self.clients is None:
            return []
        sign = 1 if self.evaluation["higher_is_better"] else -1
        scores = self.clients["score"]
        return sorted((k for k, score in enumerate(scores) if score is not None), key=lambda k: sign * scores[k])

    @property
    def worst_tenth(self) -> list[int]:
        return self.worst_first[: math.ceil(len(self.worst_first) / 10)]

    def total(self, name: str) -> float:
        return sum(record.get(name, 0) for record in self.records)


@dataclass(frozen=True)
class Series:
    """Runs of one recipe with different seeds.

    Args:
        personal: whether clients have models, or tensors, of their own.
    """

    label: str
    runs: Sequence[Run]
    look: Line
    personal: bool

    @cached_property
    def counted(self) -> Sequence[Run]:
        """The runs that numbers are taken over: those that finished, or all where none did."""
        return [run for run in self.runs if run.finished] or self.runs

    @property
    def first(self) -> Run:
        return self.counted[0]

    @property
    def in_one_place(self) -> bool:
        population = self.first.summary.get("population")
        return isinstance(population, Mapping) and population.get("clients") == 1

    @property
    def state(self) -> str:
        """Empty where all finished and came to their last round."""
        for said in ([run.state for run in self.runs if not run.finished],
                     [run.stopped_early for run in self.runs if run.stopped_early]):
            if said:
                return (f"{len(said)} of {len(self.runs)} seeds: " if len(self.runs) > 1 else "") + said[0]
        return ""

    def each(self, number: Callable[[Run], float | None]) -> tuple[float | None, float | None]:
        """Mean and standard deviation over the counted runs; one run has no spread."""
        values = [value for value in map(number, self.counted) if value is not None]
        return (float(np.mean(values)) if values else None,
                float(np.std(values, ddof=1)) if len(values) > 1 else None)


@dataclass(frozen=True)
class Measure:
    """What runs are judged by.

    Args:
        keys: under which records have it; the first that is there counts.
        on: the data that it is taken on, in words; None where that is not known.
    """

    name: str
    keys: Sequence[str]
    is_share: bool
    higher_is_better: bool
    on: str | None

    def of(self, record: Record) -> float | None:
        values = (record.get(key) for key in self.keys)
        return next((float(value) for value in values if value is not None), None)

    def last(self, run: Run) -> float | None:
        return next((value for record in reversed(run.records) if (value := self.of(record)) is not None), None)

    def shown(self, value: float | None, spread: float | None = None) -> str:
        """A score as the page writes it: `91.3 ± 0.4%`."""
        if value is None:
            return "–"
        if self.is_share:
            return f"{100 * value:.1f}{'' if spread is None else f' ± {100 * spread:.1f}'}%"
        return f"{value:.4g}{'' if spread is None else f' ± {spread:.2g}'}"


@dataclass(frozen=True)
class Report:
    """All that a page shows.

    Args:
        series: in the order given.
        table: of a comparison: what it was judged by (`judge`), `names` of its runs, which are `personal`, what `skew`
            costs, and the `floor` of always answering each client's most frequent class.
        passed_over: names of folders in which no round has been done, with what became of each.
    """

    series: Sequence[Series]
    measure: Measure
    table: Mapping[str, Any]
    passed_over: Sequence[str]

    @cached_property
    def ranked(self) -> list[Series]:
        """Training in one place first, then methods with one model for all, then those with several; the best first."""
        sign = -1 if self.measure.higher_is_better else 1

        def place(series: Series) -> tuple[bool, bool, float]:
            mean, _ = series.each(self.measure.last)
            return not series.in_one_place, series.personal, math.inf if mean is None else sign * mean

        return sorted(self.series, key=place)

    @property
    def tasks(self) -> set[str]:
        """Of the evaluations that there are."""
        return {run.evaluation["task"] for series in self.series for run in series.runs if run.evaluation is not None}

    @property
    def best(self) -> Series:
        """Of those that train one model in a federation, if any does; personal ones may owe all to skew."""
        return next((series for series in self.ranked if not series.in_one_place), self.ranked[0])

    @property
    def runs(self) -> list[tuple[str, Series, Run]]:
        """Every run, the best series' first seed before all others, with a label of its own."""
        order = [self.best, *(series for series in self.ranked if series is not self.best)]
        return [(series.label if len(series.runs) == 1 else f"{series.label}, seed {run.recipe.seed}", series, run)
                for series in order for run in (*series.counted, *(r for r in series.runs if r not in series.counted))]

    def per_run(self, blocks: Callable[[Series, Run], list[Any]]) -> list[Any]:
        """What there is to show of each run, one at a time."""
        options = [(label, parts) for label, series, run in self.runs if (parts := blocks(series, run))]
        return [Choice("run", "Run", options)] if len(options) > 1 else options[0][1] if options else []


def taken_on(on: str) -> str:
    """On what a score was taken, as a sentence goes on.

    Example:
        >>> taken_on("the whole test set (360 examples)"), taken_on("mean over 8 clients' own test data")
        ('on the whole test set (360 examples)', "mean over 8 clients' own test data")
    """
    return on if on.startswith("mean over") else f"on {on}"


def client_name(name: str) -> str:
    """A number alone would not say what it counts."""
    return f"client {name}" if name.isdigit() else name


def missing(report: Report, what: str) -> Text:
    """A line in the place of what cannot be shown."""
    if any(run.evaluation is not None for series in report.series for run in series.runs):
        return Text(f"The evaluation of these runs does not hold {what}.", is_note=True)
    return Text(f"Left out: {what}. That stands in {EVALUATION}, which is written when a run reaches its end; none of "
                "these runs has one (earlier versions of askew wrote none).", is_note=True)
