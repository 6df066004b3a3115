"""From the records of a run to the one number that a row of a table shows.

Measures read columns: record key -> its value in each round kept, None where a round has none. Accuracies, fractions in
the records, come out in percent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from askew.core.errors import AskewError, suggest

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
    """

    of: Callable[[Columns], float | None]
    unit: str = "%"
    lower_is_better: bool = False
    accuracies: Callable[[Columns], Sequence[float]] | None = None
    averaged: bool = False

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


def known(columns: Columns, key: str) -> list[float]:
    """The values of one key, without the rounds that have none."""
    return [value for value in columns.get(key, ()) if value is not None]


def final_accuracy(columns: Columns) -> float | None:
    """At the last evaluation."""
    return _last(known(columns, "accuracy"))


def best_accuracy(columns: Columns) -> float | None:
    """The highest over the rounds, for papers that report the best."""
    return max(known(columns, "accuracy"), default=None)


def mean_last_10(columns: Columns) -> float | None:
    """The mean accuracy of the last ten evaluations."""
    return _mean(known(columns, "accuracy")[-LAST:])


def rounds_to_converge(columns: Columns) -> float | None:
    """The first round from which the accuracy stays within two points of the mean of the last ten evaluations.

    A run that came so near only in its last ten evaluations has not converged: its number of rounds counts, as the
    FedCD paper counts a capped run (table 1). The paper does not say how it decides; this is our reading.
    """
    seen = [(r, a) for r, a in zip(columns["round"], columns.get("accuracy", ()), strict=False) if a is not None]
    level = mean_last_10(columns)
    if level is None:
        return None
    at = len(seen)
    while at > 0 and abs(seen[at - 1][1] - level) <= SETTLED:
        at -= 1
    return float(seen[at][0] if at < len(seen) - LAST else seen[-1][0])


_ACCURACIES = partial(known, key="accuracy")
MEASURES: dict[str, Measure] = {
    "final_accuracy": Measure(final_accuracy, accuracies=_ACCURACIES),
    "best_accuracy": Measure(best_accuracy, accuracies=_ACCURACIES),
    "mean_last_10": Measure(mean_last_10, accuracies=_ACCURACIES, averaged=True),
    "rounds_to_converge": Measure(rounds_to_converge, "rounds", lower_is_better=True),
}


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# `first weight_divergence`: one of these of any key of the records.
OF_KEY: dict[str, Callable[[Sequence[float]], float | None]] = {
    "first": lambda values: values[0] if values else None,
    "last": _last,
    "mean": _mean,
    "sum": lambda values: sum(values) if values else None,
    "lowest": lambda values: min(values, default=None),
    "highest": lambda values: max(values, default=None),
}


def measure(name: str) -> Measure:
    """The measure of that name.

    Args:
        name: one of `MEASURES`, or one of `OF_KEY` with a key of the records behind it: `last weight_divergence conv1`.
    """
    if name in MEASURES:
        return MEASURES[name]
    how, _, key = name.partition(" ")
    if how not in OF_KEY or not key:
        raise AskewError(f"unknown measure {name!r}; {suggest(name, [*MEASURES, *(f'{how} KEY' for how in OF_KEY)])}")
    values = partial(known, key=key)
    is_accuracy = "accuracy" in key
    return Measure(lambda columns: OF_KEY[how](values(columns)), "%" if is_accuracy else "",
                   accuracies=values if is_accuracy else None)
