"""What is counted of a model's outputs at the end of a run, for each kind of target. Added to chunk by chunk.

Outputs of a classifier are read as softmax does, those for labels as a sigmoid does, whatever the objective makes of
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from askew.core.measures import ByClass, Calibration, Residuals, auroc, mean_of_defined

MOST_CLASSES = 100  # for a confusion matrix, and for AUROC, which sorts all examples once per class
MOST_SCORES = 20_000_000  # numbers held for AUROC, which needs all of them at once: 160 MB


class Tally(ABC):
    """Sums over weighted examples, and what they come to."""

    counts: ByClass | None = None  # of classes or labels
    confusion: np.ndarray | None = None  # weights of examples; rows true, columns predicted

    @abstractmethod
    def add(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None: ...

    @abstractmethod
    def measures(self) -> dict[str, float | None]: ...

    def by_class(self) -> dict[str, np.ndarray] | None:
        """Recall, precision and F1 of each class; NaN where one is not defined."""
        counts = self.counts
        return None if counts is None else {"recall": counts.recall, "precision": counts.precision, "f1": counts.f1}


def tally_of(targets: str, outputs: int, origin: np.ndarray) -> Tally:
    """The tally for a kind of target that has one.

    Args:
        outputs: classes, labels or numbers.
        origin: mean of the test targets, where they are numbers.
    """
    if targets == "numbers":
        return NumberTally(outputs, origin)
    return ClassTally(outputs) if targets == "classes" else LabelTally(outputs)


class _Scores:
    """All examples' scores for each class or label, as long as they are few enough to be held."""

    def __init__(self, classes: int) -> None:
        self._held: list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None = [] if classes <= MOST_CLASSES else None
        self._size = 0

    def add(self, positive: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> None:
        """Args:
            positive: [examples, classes] whether an example is of a class.
        """
        self._size += scores.size
        if self._size > MOST_SCORES:
            self._held = None
        if self._held is not None:
            self._held.append((positive, scores, weights))

    @property
    def auroc(self) -> float | None:
        """The mean over classes of each one against the rest."""
        if not self._held:
            return None
        positive, scores, weights = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        return mean_of_defined(np.array([auroc(is_one, score, weights)
                                         for is_one, score in zip(positive.T, scores.T, strict=True)]))


class ClassTally(Tally):
    """One class per example."""

    counts: ByClass

    def __init__(self, classes: int) -> None:
        self.counts, self._calibration, self._scores = ByClass(classes), Calibration(), _Scores(classes)
        self.confusion = np.zeros((classes, classes)) if classes <= MOST_CLASSES else None
        self._log_loss = 0.0

    def add(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        classes, at = self.counts.classes, np.arange(len(targets))
        logs = outputs - outputs.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        shares, answers = np.exp(logs), outputs.argmax(axis=1)
        self.counts.add(targets, answers, weights)
        self._calibration.add(shares[at, answers], answers == targets, weights)
        self._scores.add(targets[:, None] == np.arange(classes), shares, weights)
        self._log_loss -= float(weights @ logs[at, targets])
        if self.confusion is not None:
            places = np.bincount(targets * classes + answers, weights, classes**2)
            self.confusion += places.reshape(classes, classes)

    def measures(self) -> dict[str, float | None]:
        return {"balanced_accuracy": mean_of_defined(self.counts.recall), "macro_f1": mean_of_defined(self.counts.f1),
                "auroc": self._scores.auroc, "log_loss": self._log_loss / float(self.counts.true.sum()),
                "calibration_error": self._calibration.error}


class LabelTally(Tally):
    """Several labels per example, each there or not."""

    counts: ByClass

    def __init__(self, labels: int) -> None:
        self.counts, self._scores = ByClass(labels), _Scores(labels)

    def add(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        present, named = targets > 0.5, outputs > 0
        self.counts.true += weights @ present
        self.counts.predicted += weights @ named
        self.counts.hit += weights @ (present & named)
        self._scores.add(present, outputs, weights)

    def measures(self) -> dict[str, float | None]:
        return {"macro_f1": mean_of_defined(self.counts.f1), "auroc": self._scores.auroc}


class NumberTally(Tally):
    """Numbers."""

    def __init__(self, outputs: int, origin: np.ndarray) -> None:
        self._residuals = Residuals(outputs, origin)

    def add(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        self._residuals.add(targets, outputs, weights)

    def measures(self) -> dict[str, float | None]:
        return {"r2": self._residuals.r2, "mean_absolute_error": self._residuals.mean_absolute_error,
                "root_mean_squared_error": self._residuals.root_mean_squared_error}
