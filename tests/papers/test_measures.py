"""Measures by hand."""

import pytest

import askew
from askew.papers.measures import measure

ACCURACY = {"round": [1, 2, 3, 4], "accuracy": [0.5, None, 0.9, 0.7], "weight_divergence conv1": [0.1, 0.2, None, 0.4]}


@pytest.mark.parametrize(("name", "value"), [
    ("final_accuracy", 70.0), ("best_accuracy", 90.0), ("mean_last_10", 70.0), ("first weight_divergence conv1", 0.1),
    ("last weight_divergence conv1", 0.4), ("sum weight_divergence conv1", 0.7),
    ("mean weight_divergence conv1", 0.7 / 3),
    ("highest accuracy", 90.0), ("lowest accuracy", 50.0), ("last no_such_key", None),
])
def test_numbers_of_a_run(name, value):
    assert measure(name)(ACCURACY) == (None if value is None else pytest.approx(value))


def test_the_last_ten_evaluations():
    rising = {"round": list(range(20)), "accuracy": [0.0] * 10 + [0.1 * i for i in range(10)]}
    assert measure("mean_last_10")(rising) == pytest.approx(45)


@pytest.mark.parametrize(("accuracy", "round"), [
    ([0.1, 0.3, 0.5, 0.69] + [0.7] * 16, 4),  # 0.69 is within two points of 0.7
    ([0.1, 0.7, 0.5] + [0.7] * 17, 4),  # a swing in round 3
    ([0.7, 0.2] * 10, 20),  # never
    ([0.1] * 15 + [0.7] * 5, 20),  # the last ten evaluations alone tell nothing
    ([0.7] * 20, 1),
])
def test_rounds_to_converge(accuracy, round):
    assert measure("rounds_to_converge")({"round": list(range(1, 21)), "accuracy": accuracy}) == round


def test_rounds_to_converge_counts_rounds_not_evaluations():
    columns = {"round": list(range(1, 41)), "accuracy": [x for a in [0.1] + [0.7] * 19 for x in (None, a)]}
    assert measure("rounds_to_converge")(columns) == 4
    assert measure("rounds_to_converge")({"round": [1]}) is None


@pytest.mark.parametrize("name", ["final_acuracy", "weight_divergence", "median accuracy", "last "])
def test_unknown_measures(name):
    with pytest.raises(askew.AskewError, match="unknown measure"):
        measure(name)
