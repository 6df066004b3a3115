"""Measures of federations whose devices come in archetypes, each judged on its own kind of data, as in fedcd2020.

They read `group_accuracy` (one accuracy an archetype), `group_choice` (the model that each archetype prefers) and
`kept_models` (models that devices train, summed over the devices).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from askew.papers.measure import LAST, SETTLED, Columns, Measure, known, mean

MOST_ARCHETYPES = 10
FIRST_CLONING = 5  # round
CAP = 300  # rounds after which fedcd2020 stopped FedAvg (table 1)
Accuracies = Sequence[Sequence[float]]  # evaluation -> accuracy of each archetype


def archetype_accuracy(columns: Columns, archetype: int) -> float | None:
    """An archetype's mean accuracy over the last ten evaluations."""
    return mean(accuracies_of(columns, archetype)[-LAST:])


def accuracies_of(columns: Columns, archetype: int) -> list[float]:
    """An archetype's accuracy at each evaluation."""
    return [row[archetype] for row in _by_archetype(columns) if archetype < len(row)]


def changes(columns: Columns) -> list[float]:
    """From each evaluation to the next, how much an archetype's accuracy changes: the mean of the absolute values.

    fedcd2020 averages over devices (figures 2 and 5), where noise of the single device adds to it; records hold the
    mean of each archetype's devices only, three or five.
    """
    rows = _by_archetype(columns)
    return [_mean_distance(now, before) for before, now in itertools.pairwise(rows)]


def change_last_10(columns: Columns) -> float | None:
    """The mean change from one evaluation to the next at the end of the run."""
    return mean(changes(columns)[-LAST:])


def rounds_until_archetypes_settle(columns: Columns) -> float | None:
    """The first round from which archetypes stay, on average, within two points of their last ten evaluations' means.

    The mean over all devices hides what FedAvg does: one group of archetypes gains what the other loses. As in
    `rounds_to_converge`, a run that comes so near only in its last ten evaluations counts with all of its rounds.
    """
    rows = _by_archetype(columns)
    rounds = [r for r, row in zip(columns["round"], columns.get("group_accuracy", ()), strict=False) if row is not None]
    if not rows:
        return None
    level = _level(rows)
    at = len(rows)
    while at > 0 and _mean_distance(rows[at - 1], level) <= SETTLED:
        at -= 1
    return float(rounds[at] if at < len(rows) - LAST else rounds[-1])


def distance_last_10(columns: Columns) -> float | None:
    """How far archetypes are, on average, from their own means in the last ten evaluations: more than two points, and
    the run has not settled. The rounds until it settles cannot say by how much: a run that goes on swinging has all."""
    last = _by_archetype(columns)[-LAST:]
    return mean([_mean_distance(row, _level(last)) for row in last])


def saving(columns: Columns) -> float | None:
    """How many times less is trained until archetypes settle than by one model in 300 rounds.

    fedcd2020 compares wall-clock times (table 1), which are those of its notebook. What a round costs is what its
    devices train: as many models as they keep. This is the same on every machine.
    """
    end = rounds_until_archetypes_settle(columns)
    if end is None:
        return None
    if "kept_models" not in columns:
        return CAP / end
    kept = [number for r, number in zip(columns["round"], columns["kept_models"], strict=True) if r < end]
    # A round trains what devices kept at the end of the one before; all begin with one model, which is cloned later.
    return CAP / (1 + sum(number / columns["kept_models"][0] for number in kept))


def models_in_both_halves(columns: Columns) -> float | None:
    """How many models are preferred in both halves of the archetypes, in the round after the first cloning in which
    most are; 0: the halves are apart from then on."""
    rows = [row for r, row in zip(columns["round"], columns.get("group_choice", ()), strict=False)
            if row is not None and r > FIRST_CLONING]
    return max((float(len(set(row[: len(row) // 2]) & set(row[len(row) // 2:]))) for row in rows), default=None)


def models_preferred(columns: Columns) -> float | None:
    """How many models are, in the last round, preferred by some archetype."""
    rows = known_lists(columns, "group_choice")
    return float(len(set(rows[-1]))) if rows else None


def known_lists(columns: Columns, key: str) -> list[list[float]]:
    """Like `known`, for keys whose values are lists."""
    return [list(value) for value in columns.get(key, ()) if value is not None]


def _by_archetype(columns: Columns) -> list[list[float]]:
    """One archetype with all devices where the federation has none."""
    return known_lists(columns, "group_accuracy") or [[value] for value in known(columns, "accuracy")]


def _level(rows: Accuracies) -> list[float]:
    """Each archetype's mean over the last ten evaluations."""
    return [sum(values) / len(values) for values in zip(*rows[-LAST:], strict=True)]


def _mean_distance(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


OF_ARCHETYPES = {
    **{f"archetype {k}": Measure(partial(archetype_accuracy, archetype=k),
                                 accuracies=partial(accuracies_of, archetype=k), averaged=True)
       for k in range(MOST_ARCHETYPES)},
    "change_last_10": Measure(change_last_10, lower_is_better=True),
    "rounds_until_archetypes_settle": Measure(rounds_until_archetypes_settle, "rounds", lower_is_better=True),
    "distance_last_10": Measure(distance_last_10, lower_is_better=True),
    "saving": Measure(saving, ""),
    "models_in_both_halves": Measure(models_in_both_halves, "models", lower_is_better=True),
    "models_preferred": Measure(models_preferred, "models"),
}
