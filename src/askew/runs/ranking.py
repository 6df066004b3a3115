"""The settings of a sweep in order: mean over seeds in the last round, on the test set or on held-out data.

Never by the best round on the test set: the best of many noisy rounds promises more than training can keep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.runs.result import Result
from askew.runs.search import SEED

By = Literal["last", "held-out"]


@dataclass(frozen=True)
class Setting:
    """One setting of a sweep, with all of its seeds.

    Args:
        values: address -> value, without the seed.
        results: one per seed.
        by: "last": the headline in the last round; "held-out": that on held-out training examples.
    """

    values: Mapping[str, Any]
    results: tuple[Result, ...]
    by: By = "last"

    @cached_property
    def scores(self) -> list[float]:
        """Of the seeds that neither diverged nor failed."""
        key = self.results[0].headline if self.by == "last" else f"held_out_{self.results[0].headline}"
        return [float(result.evaluations[-1][key]) for result in self.results
                if result.evaluations and not (result.diverged or result.failed)]

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation over seeds; one seed has none."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    @property
    def broke_off(self) -> list[Result]:
        """Seeds that diverged or failed."""
        return [result for result in self.results if result.diverged or result.failed]

    @property
    def order(self) -> tuple[bool, float]:
        """Smaller is better; a setting of which some seeds broke off comes after all others."""
        if self.mean is None:
            return True, math.inf
        return bool(self.broke_off), -self.mean if self.results[0].objective.higher_is_better else self.mean


def ranked(settings: Sequence[Mapping[str, Any]], results: Sequence[Result], by: By = "last") -> list[Setting]:
    """Settings with their seeds together, the best first.

    Args:
        settings: address -> value, `seed` among them or not; one per result.
    """
    together: dict[str, tuple[Mapping[str, Any], list[Result]]] = {}
    for setting, result in zip(settings, results, strict=True):
        values = {key: value for key, value in setting.items() if key != SEED}
        together.setdefault(repr(values), (values, []))[1].append(result)
    return sorted((Setting(values, tuple(each), by) for values, each in together.values()), key=lambda s: s.order)


def recording_held_out(recipe: Recipe) -> Recipe:
    """A recipe whose rounds record the score on held-out examples, and which stops no earlier than it would."""
    return recipe if recipe.stop_after_no_gain else recipe.replace(stop_after_no_gain=recipe.rounds)


def check_rank(by: str) -> By:
    if by not in ("last", "held-out"):
        raise AskewError(f"--rank is last (the test set in the last round) or held-out, not {by!r}")
    return "last" if by == "last" else "held-out"
