"""Paired differences between a method and its opponent, and what can be said of their mean from a few seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Student's t at 97.5%, for 1, 2, ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
DRAWS = 4000  # of the bootstrap: a chance is then known to a point


@dataclass(frozen=True)
class Score:
    """What one run came to; NaN where training diverged or failed.

    Args:
        held_out: the headline on training examples that no client trains on.
        test: that on the test data.
    """

    held_out: float
    test: float


@dataclass(frozen=True)
class Scale:
    """How a difference of two headlines is written: positive where the first is better.

    Args:
        higher_is_better: of the headline.
        is_share: then in points (a hundredth of the whole); else in percent of the opponent's mean.

    Example:
        >>> Scale(True, True).gains([0.93], [0.91]).round(6).tolist()
        [2.0]
        >>> Scale(False, False).gains([1.5], [2.0]).tolist()  # a quarter less error
        [25.0]
    """

    higher_is_better: bool = True
    is_share: bool = True

    def gains(self, scores: Sequence[float], opponent: Sequence[float]) -> np.ndarray:
        scored, against = np.asarray(scores, float), np.asarray(opponent, float)
        difference = (scored - against) if self.higher_is_better else (against - scored)
        if self.is_share:
            return 100 * difference
        finite = np.abs(against[np.isfinite(against)])
        return 100 * difference / max(float(finite.mean()) if len(finite) else math.nan, 1e-12)

    def best_first(self, score: float) -> float:
        """A number by which the best sorts first, and what has no score last."""
        return math.inf if math.isnan(score) else -score if self.higher_is_better else score


@dataclass(frozen=True)
class Gain:
    """The mean of paired differences, with an interval of 95%.

    Args:
        mean, std: over seeds; std is that of a single seed's difference.
        low, high: Student's interval of the mean; infinite with one seed.
        seeds: pairs that both have a score.
        broke_off: seeds of which the method has none.

    Example:
        >>> Gain.of(np.array([1.0, 3.0]))  # 2 +- 12.706 * sqrt(2) / sqrt(2)
        Gain(mean=2.0, std=1.414214, low=-10.706, high=14.706, seeds=2, broke_off=0)
    """

    mean: float
    std: float
    low: float
    high: float
    seeds: int
    broke_off: int = 0

    @classmethod
    def of(cls, differences: np.ndarray, broke_off: int = 0) -> Gain:
        known = differences[np.isfinite(differences)]
        if len(known) == 0:
            return cls(math.nan, math.nan, -math.inf, math.inf, 0, broke_off)
        mean = float(known.mean())
        if len(known) == 1:
            return cls(round(mean, 6), math.nan, -math.inf, math.inf, 1, broke_off)
        std = float(known.std(ddof=1))
        half = student(len(known) - 1) * std / math.sqrt(len(known))
        low, high = round(mean - half, 6), round(mean + half, 6)
        return cls(round(mean, 6), round(std, 6), low, high, len(known), broke_off)


def student(freedom: int) -> float:
    """The 97.5% point of Student's t.

    Example:
        >>> student(1), student(30), round(student(120), 3)
        (12.706, 2.042, 1.98)
    """
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)  # Cornish and Fisher


def chance_best(gains: Mapping[str, np.ndarray], seed: int) -> dict[str, float]:
    """How often each method has the highest mean gain when seeds are weighed anew at random.

    The Bayesian bootstrap (Rubin 1981) over seeds, the same weights for all methods, since all have the same seeds.

    Example:
        >>> chance_best({"a": np.array([1.0, 1.0]), "b": np.array([0.0, 0.0])}, 0)
        {'a': 1.0, 'b': 0.0}
    """
    names = [name for name, values in gains.items() if np.isfinite(values).all()]
    if not names:
        return dict.fromkeys(gains, 0.0)
    table = np.stack([gains[name] for name in names])
    weights = np.random.default_rng(seed).dirichlet(np.ones(table.shape[1]), size=DRAWS)
    first = np.bincount((weights @ table.T).argmax(axis=1), minlength=len(names)) / DRAWS
    return {name: float(first[names.index(name)]) if name in names else 0.0 for name in gains}
