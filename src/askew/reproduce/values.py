"""What our runs say about a row: a mean over seeds and its spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from askew.core.recipe import Recipe
from askew.reproduce.item import Row
from askew.reproduce.measures import measure
from askew.reproduce.store import Results


@dataclass(frozen=True)
class Value:
    """A row as measured.

    Args:
        mean: over seeds, in the measure's unit; None where it is not measured, or where all runs diverged.
        spread: sample standard deviation over seeds; None for one seed.
        n: seeds.
        diverged: runs of the row that did.
        measured: whether every recipe of the row has at least one run that finished or diverged.
        best: the recipe that the mean is of: of several, the one with the best mean.
    """

    mean: float | None = None
    spread: float | None = None
    n: int = 0
    diverged: int = 0
    measured: bool = False
    best: Recipe | None = None


def value_of(row: Row, results: Results, paper: str) -> Value:
    """The value of a row over all seeds that finished.

    Where the row is a reduction (`less_than`), it is taken seed by seed: a seed has the same clients and first weights
    in both runs.
    """
    runs = [results.seeds(paper, recipe) for recipe in (*row.recipes, *row.less_than)]
    diverged = sum(run.diverged is not None for mine in runs for run in mine)
    if not row.recipes or not all(any(run.done for run in mine) for mine in runs):
        return Value(diverged=diverged)
    best, values = _best(row.recipes, row.measure, results, paper)
    if row.less_than:
        _, others = _best(row.less_than, row.measure, results, paper)
        values = {seed: others[seed] - value for seed, value in values.items() if seed in others}
    if not values:
        return Value(diverged=diverged, measured=diverged > 0)
    spread = statistics.stdev(values.values()) if len(values) > 1 else None
    return Value(statistics.fmean(values.values()), spread, len(values), diverged, True, best)


def _best(recipes: Sequence[Recipe], name: str, results: Results, paper: str) -> tuple[Recipe | None, dict[int, float]]:
    """The recipe with the best mean over seeds, and its value in each; recipes that always diverged are out."""
    number = measure(name)
    found: list[tuple[float, Recipe, dict[int, float]]] = []
    for recipe in recipes:
        by_seed = {run.seed: number(run.records) for run in results.seeds(paper, recipe) if run.finished}
        values = {seed: value for seed, value in by_seed.items() if value is not None}
        if values:
            found.append((statistics.fmean(values.values()), recipe, values))
    if not found:
        return None, {}
    pick = min if number.lower_is_better else max
    _, best, values = pick(found, key=lambda entry: entry[0])
    return best, values
