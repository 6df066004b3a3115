from __future__ import annotations

import pytest

from askew.papers.archetype_measures import CAP, changes
from askew.papers.measures import measure

# Two archetypes that swing against each other for 20 rounds, by 20 points each, and then stand still for 20.
SWINGING = [[0.7, 0.5] if r % 2 else [0.5, 0.7] for r in range(20)]
SETTLED = {"round": list(range(1, 41)), "group_accuracy": SWINGING + [[0.8, 0.6]] * 20,
           "accuracy": [0.6] * 20 + [0.7] * 20,
           "kept_models": [4] * 10 + [8] * 30, "group_choice": [[0, 0]] * 39 + [[3, 1]]}


def test_changes_see_what_the_mean_over_devices_hides() -> None:
    columns = {"round": [1, 2, 3], "group_accuracy": SWINGING[:3], "accuracy": [0.6] * 3}
    assert changes(columns) == pytest.approx([0.2, 0.2])


def test_change_at_the_end_is_in_points() -> None:
    unsettled = {"round": list(range(1, 21)), "group_accuracy": SWINGING}
    assert measure("change_last_10")(SETTLED) == 0
    assert measure("change_last_10")(unsettled) == pytest.approx(20)


def test_rounds_until_archetypes_settle() -> None:
    assert measure("rounds_until_archetypes_settle")(SETTLED) == 21
    # A run that never settles counts with all of its rounds, as the paper's table does.
    assert measure("rounds_until_archetypes_settle")({"round": list(range(1, 21)), "group_accuracy": SWINGING}) == 20


def test_distance_from_their_own_means_at_the_end() -> None:
    assert measure("distance_last_10")(SETTLED) == pytest.approx(0, abs=1e-9)
    # Two archetypes that swing by 20 points from round to round are 10 from their means.
    assert measure("distance_last_10")({"round": list(range(1, 21)), "group_accuracy": SWINGING}) == pytest.approx(10)


def test_saving_counts_the_models_that_were_trained() -> None:
    # Rounds 1 to 11 train 4 models on the 4 devices, rounds 12 to 21 train 8: 11 + 10 * 2 rounds' worth of one model.
    assert measure("saving")(SETTLED) == pytest.approx(CAP / 31)
    one_model = {key: value for key, value in SETTLED.items() if key != "kept_models"}
    assert measure("saving")(one_model) == pytest.approx(CAP / 21)


def test_preferred_models() -> None:
    assert measure("models_preferred")(SETTLED) == 2
    apart, mixed = [0, 0, 1, 1], [0, 1, 1, 2]
    both = measure("models_in_both_halves")
    assert both({"round": [5, 6, 7], "group_choice": [mixed, apart, apart]}) == 0  # one model at first
    assert both({"round": [5, 6, 7], "group_choice": [mixed, mixed, apart]}) == 1
    assert both({"round": [1], "group_choice": [mixed]}) is None


def test_rounds_without_evaluation_are_passed_over() -> None:
    gaps = {"round": [1, 2, 3], "group_accuracy": [[0.5, 0.7], None, [0.6, 0.9]]}
    assert changes(gaps) == pytest.approx([0.15])
    assert measure("archetype 1")(gaps) == pytest.approx(80)
    assert measure("archetype 7")(gaps) is None
    assert measure("models_preferred")(gaps) is None
