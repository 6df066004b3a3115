r"""How good predictions are, beyond accuracy: numbers of weighted examples, each tested against scikit-learn's.

Weights let one function judge a whole test set (all alike) and the data of many clients together, each client counting
alike. What is not defined (the recall of a class of which there is no example) is NaN in an array, None in a number,
and left out of means.

References:
    Hanley and McNeil 1982, "The meaning and use of the area under a ROC curve"; Guo et al. 2017, "On Calibration of
    Modern Neural Networks", eq. (3); Brodersen et al. 2010, "The balanced accuracy and its posterior distribution".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BINS = 15  # of calibration: equally wide, as Guo et al. take them


def class_means(labels: np.ndarray, values: np.ndarray, num_classes: int) -> np.ndarray:
    """The mean over each class's examples; NaN of a class without any.

    Example:
        >>> class_means(np.array([0, 0, 2]), np.array([1.0, 0.0, 1.0]), 3).tolist()
        [0.5, nan, 1.0]
    """
    counts, sums = (np.bincount(labels, weights=w, minlength=num_classes) for w in (None, values))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def mean_of_defined(values: np.ndarray) -> float | None:
    """The mean of what is not NaN; None where nothing is defined.

    Example:
        >>> mean_of_defined(np.array([0.5, np.nan, 1.0])), mean_of_defined(np.array([np.nan]))
        (0.75, None)
    """
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; NaN where whole is 0."""
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)


@dataclass
class ByClass:
    """Weights of examples by class: those that are of it, those that were said to be, and those that are both.

    Example:
        Of classes (0, 0, 1), answers (0, 1, 1): half of class 0 is found; of what was said to be 1, half is.

        >>> counts = ByClass(2)
        >>> counts.add(np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3))
        >>> counts.recall.tolist(), counts.precision.tolist(), counts.f1.round(4).tolist()
        ([0.5, 1.0], [1.0, 0.5], [0.6667, 0.6667])
    """

    classes: int
    true: np.ndarray = field(init=False)
    predicted: np.ndarray = field(init=False)
    hit: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.true, self.predicted, self.hit = np.zeros((3, self.classes))

    def add(self, labels: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> None:
        right = labels == answers
        self.true += np.bincount(labels, weights, self.classes)
        self.predicted += np.bincount(answers, weights, self.classes)
        self.hit += np.bincount(labels[right], weights[right], self.classes)

    @property
    def recall(self) -> np.ndarray:
        return ratio(self.hit, self.true)

    @property
    def precision(self) -> np.ndarray:
        return ratio(self.hit, self.predicted)

    @property
    def f1(self) -> np.ndarray:
        """2 hits / (examples + answers); NaN for a class that is neither there nor named."""
        return ratio(2 * self.hit, self.true + self.predicted)


@dataclass
class Calibration:
    r"""Whether a model is right as often as it is sure: $\sum_b \frac{n_b}{n} |\mathrm{right}_b - \mathrm{sure}_b|$.

    Answers are sorted by how sure they are (the largest probability) into 15 equally wide bins.

    Example:
        Twice 90% sure and right once: |0.5 - 0.9|.

        >>> calibration = Calibration()
        >>> calibration.add(np.array([0.9, 0.9]), np.array([True, False]), np.ones(2))
        >>> round(calibration.error, 12)
        0.4
    """

    sums: np.ndarray = field(default_factory=lambda: np.zeros((3, BINS)))  # weights, of right ones, times sureness

    def add(self, sure: np.ndarray, right: np.ndarray, weights: np.ndarray) -> None:
        bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], sure)  # (low, high]
        self.sums += [np.bincount(bins, values, BINS) for values in (weights, weights * right, weights * sure)]

    @property
    def error(self) -> float | None:
        total, right, sure = self.sums
        return float(np.abs(right - sure).sum() / total.sum()) if total.sum() > 0 else None


def auroc(positive: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """The chance that a positive example scores above a negative one, ties counting half; NaN without both.

    Example:
        Positives 0.8 and 0.3 against negatives 0.5 and 0.3: 1, 1, 0, 1/2.

        >>> auroc(np.array([True, True, False, False]), np.array([0.8, 0.3, 0.5, 0.3]), np.ones(4))
        0.625
    """
    _, place = np.unique(scores, return_inverse=True)
    hits = np.bincount(place, weights * positive)
    misses = np.bincount(place, weights * ~positive)
    pairs = hits.sum() * misses.sum()
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / pairs) if pairs > 0 else float("nan")


@dataclass
class Residuals:
    r"""Errors of numbers: $R^2 = 1 - \sum (y - o)^2 / \sum (y - \bar y)^2$, the mean over the outputs for which it is
    defined; absolute errors and the root of the mean of squared ones, over all outputs.

    Args:
        outputs: numbers per example.
        origin: about the targets' mean: sums of squares around it lose no digits.

    Example:
        Targets (1, 2, 3), answers (1, 2, 5): 1 - 4 / 2 = -1.

        >>> residuals = Residuals(1, np.array([2.0]))
        >>> residuals.add(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [5.0]]), np.ones(3))
        >>> residuals.r2, round(residuals.mean_absolute_error, 4), round(residuals.root_mean_squared_error, 4)
        (-1.0, 0.6667, 1.1547)
    """

    outputs: int
    origin: np.ndarray
    sums: np.ndarray = field(init=False)  # y, y^2, |y - o|, (y - o)^2
    weight: float = 0.0

    def __post_init__(self) -> None:
        self.sums = np.zeros((4, self.outputs))

    def add(self, targets: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> None:
        y, error = targets - self.origin, targets - answers
        self.sums += [weights @ values for values in (y, y**2, np.abs(error), error**2)]
        self.weight += float(weights.sum())

    @property
    def r2(self) -> float | None:
        """None where no output's targets differ."""
        total, squares, _, errors = self.sums
        spread = squares - total**2 / self.weight
        spread[spread <= 1e-12 * squares] = 0.0  # rounding alone
        return mean_of_defined(1 - ratio(errors, spread))

    @property
    def mean_absolute_error(self) -> float:
        return float(self.sums[2].mean() / self.weight)

    @property
    def root_mean_squared_error(self) -> float:
        """Over all outputs together."""
        return float(np.sqrt(self.sums[3].mean() / self.weight))
