"""What a measure is: from the records of a run to the one number that a row of a table shows.

Measures read columns: record key -> its value in each round kept, None where a round has none. Accuracies, fractions in
the records, come out in percent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Columns = Mapping[str, Sequence[Any]]
SETTLED = 0.02  # accuracy: how far a converged run may still swing
LAST = 10  # evaluations that count as the end of a run


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Args:
        of: columns -> the number, None where the run has none.
        unit: "%" for accuracies, whose fractions are multiplied by 100.
        lower_is_better: which of several tuned recipes counts as the best.
        accuracies: columns -> the accuracy at each evaluation, where the number is an accuracy.
        averaged: whether the number is the mean of the last of them.
        fixed: whether the method's own rules bring it about, so that another seed has the same.
    """

    of: Callable[[Columns], float | None]
    unit: str = "%"
    lower_is_better: bool = False
    accuracies: Callable[[Columns], Sequence[float]] | None = None
    averaged: bool = False
    fixed: bool = False

    def __call__(self, columns: Columns) -> float | None:
        value = self.of(columns)
        return None if value is None else value * 100 if self.unit == "%" else value

    def swing(self, columns: Columns) -> float:
        """How far the number would be off had the run ended a little sooner, in points.

        That is the deviation of its last ten evaluations. Of a mean over these it is their standard error; 0 for
        numbers that are not accuracies.
        """
        last = [] if self.accuracies is None else list(self.accuracies(columns))[-LAST:]
        deviation = 100 * statistics.stdev(last) if len(last) > 1 else 0.0
        return deviation / len(last) ** 0.5 if self.averaged and last else deviation


def mean(values: Sequence[float]) -> float | None:
    """None where there is nothing."""
    return sum(values) / len(values) if values else None


def known(columns: Columns, key: str) -> list[float]:
    """The values of one key, without the rounds that have none."""
    return [value for value in columns.get(key, ()) if value is not None]
