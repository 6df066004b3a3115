"""What our runs say about a row: a mean over seeds, its spread and its noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from askew.core.recipe import Recipe
from askew.papers import noise
from askew.papers.item import Row
from askew.papers.measure import Measure
from askew.papers.measures import measure
from askew.papers.store import Results


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
        noise: standard error of the mean (`askew.papers.noise`).
        lost: runs of the recipe that the mean is of, or of what it is a reduction from, that diverged or ended at
            chance. A mean over those that happened to survive says nothing about the recipe.
    """

    mean: float | None = None
    spread: float | None = None
    n: int = 0
    diverged: int = 0
    measured: bool = False
    best: Recipe | None = None
    noise: float = 0.0
    lost: int = 0
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether it is evidence of anything."""
        return self.mean is not None and math.isfinite(self.mean) and not self.lost


@dataclass(frozen=True)
class _Tuned:
    """The best of several recipes.

    Args:
        values: seed -> its number.
        of_one: noise of the number of one run.
        of_test_set: noise that no number of seeds lowers.
        lost: runs that diverged or ended at chance.
    """

    recipe: Recipe
    values: dict[int, float]
    of_one: float
    of_test_set: float
    lost: int


def value_of(row: Row, results: Results, paper: str) -> Value:
    """The value of a row over all seeds that finished.

    Where the row is a reduction (`less_than`), it is taken seed by seed: a seed has the same clients and first weights
    in both runs.
    """
    runs = [results.seeds(paper, recipe) for recipe in (*row.recipes, *row.less_than)]
    diverged = sum(run.diverged is not None for of_recipe in runs for run in of_recipe)
    if not row.recipes or not all(any(run.done for run in of_recipe) for of_recipe in runs):
        return Value(diverged=diverged)
    sides = [_best(recipes, measure(row.measure), results, paper) for recipes in (row.recipes, row.less_than)
             if recipes]
    tuned = [side for side in sides if side is not None]
    by_seed = _reduction(tuned) if len(tuned) == len(sides) else {}
    if not by_seed:
        return Value(diverged=diverged, measured=diverged > 0, lost=diverged)
    values = list(by_seed.values())
    several = len(values) > 1
    of_one = math.hypot(*(side.of_one for side in tuned))
    of_test_set = math.hypot(*(side.of_test_set for side in tuned))
    few = 0.0 if measure(row.measure).accuracies else of_one
    return Value(statistics.fmean(values), statistics.stdev(values) if several else None, len(values), diverged, True,
                 tuned[0].recipe,
                 noise.of_seeds(values, of_test_set, few) if several else of_one,
                 sum(side.lost for side in tuned), by_seed)


def _reduction(sides: Sequence[_Tuned]) -> dict[int, float]:
    """The numbers of one side, or by how much they are lower than the other's, for the seeds that both have."""
    if len(sides) == 1:
        return sides[0].values
    low, high = (side.values for side in sides)
    return {seed: high[seed] - value for seed, value in low.items() if seed in high}


def _best(recipes: Sequence[Recipe], number: Measure, results: Results, paper: str) -> _Tuned | None:
    """Of the recipes with the fewest lost runs the one with the best mean over seeds; None where all runs diverged.

    One that has fewer than half as many seeds as another was given up after these, and its luck does not count.
    """
    candidates: list[tuple[float, float, _Tuned]] = []
    for recipe in recipes:
        runs = results.seeds(paper, recipe)
        measured = [(run, number(run.records)) for run in runs if run.finished]
        values = {run.seed: value for run, value in measured if value is not None}
        if not values:
            continue
        at_chance = sum(noise.at_chance(number, value) for value in values.values())
        lost = sum(run.diverged is not None for run in runs) + at_chance
        share, mean = lost / sum(run.done for run in runs), statistics.fmean(values.values())
        of_one = max(noise.of_one_run(number, recipe, value, run.records)
                     for run, value in measured if value is not None)
        side = _Tuned(recipe, values, of_one, noise.of_test_set(number, recipe, mean), lost)
        candidates.append((share, mean if number.lower_is_better else -mean, side))
    most = max((len(side.values) for *_, side in candidates), default=0)
    taken = [entry for entry in candidates if 2 * len(entry[2].values) >= most]
    return min(taken, key=lambda entry: entry[:2])[2] if taken else None
