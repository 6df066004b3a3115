"""Every measure that a row of a table may name."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from askew.core.errors import AskewError, suggest
from askew.papers.archetype_measures import OF_ARCHETYPES
from askew.papers.measure import LAST, SETTLED, Columns, Measure, known, mean


def final_accuracy(columns: Columns) -> float | None:
    """At the last evaluation."""
    return _last(known(columns, "accuracy"))


def best_accuracy(columns: Columns) -> float | None:
    """The highest over the rounds, for papers that report the best."""
    return max(known(columns, "accuracy"), default=None)


def mean_last_10(columns: Columns) -> float | None:
    """The mean accuracy of the last ten evaluations."""
    return mean(known(columns, "accuracy")[-LAST:])


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


def swing_last_10(columns: Columns) -> float | None:
    """The standard deviation of the last ten evaluations' accuracies, in points."""
    last = known(columns, "accuracy")[-LAST:]
    return 100 * statistics.stdev(last) if len(last) == LAST else None


_ACCURACIES = partial(known, key="accuracy")
MEASURES: Mapping[str, Measure] = {
    "final_accuracy": Measure(final_accuracy, accuracies=_ACCURACIES),
    "best_accuracy": Measure(best_accuracy, accuracies=_ACCURACIES),
    "mean_last_10": Measure(mean_last_10, accuracies=_ACCURACIES, averaged=True),
    "swing_last_10": Measure(swing_last_10, "points", lower_is_better=True),
    "rounds_to_converge": Measure(rounds_to_converge, "rounds", lower_is_better=True),
    **OF_ARCHETYPES,
}


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


# FedCD's devices delete down to two models and clone these: all stored runs have four at most, two at the end.
FIXED = {"highest kept_models", "last most_kept_by_a_device"}
# `first weight_divergence`: one of these of any key of the records.
OF_KEY: dict[str, Callable[[Sequence[float]], float | None]] = {
    "first": lambda values: values[0] if values else None,
    "last": _last,
    "mean": mean,
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
                   accuracies=values if is_accuracy else None, fixed=name in FIXED)
