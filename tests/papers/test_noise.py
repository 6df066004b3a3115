"""How far a number may be off, by hand, and what the stored results say about it."""

import json
import statistics
from pathlib import Path

import pytest

import askew
from askew.core.recipe import Recipe
from askew.papers import noise
from askew.papers.measures import measure
from askew.papers.papers import all_items
from askew.papers.plan import recipes_of
from askew.papers.store import Results
from askew.papers.values import value_of

RESULTS = Path(__file__).parents[2] / "results"
MNIST = Recipe(data="mnist()")


def columns(*accuracies):
    return {"round": list(range(len(accuracies))), "accuracy": list(accuracies)}


@pytest.mark.parametrize(("data", "accuracy", "expected"), [
    ("mnist()", 90.0, 0.3), ("cifar10()", 50.0, 0.5), ("mnist()", 99.0, 0.0995), ("digits()", 90.0, 1.58),
    ("mnist()", 100.0, 0.0)])
def test_what_a_test_set_allows(data, accuracy, expected):
    of_test_set = noise.of_test_set(measure("final_accuracy"), Recipe(data=data), accuracy)
    assert of_test_set == pytest.approx(expected, rel=0.01)


def test_one_run_swings():
    swinging = columns(*[0.3, 0.5] * 5)  # deviation of ten values 10 points from 40: sqrt(10 * 100 / 9) = 10.54
    final, mean = measure("final_accuracy"), measure("mean_last_10")
    assert final.swing(swinging) == pytest.approx(10.54, abs=0.01)
    assert mean.swing(swinging) == pytest.approx(10.54 / 10**0.5, abs=0.01)
    assert noise.of_one_run(final, MNIST, 50.0, swinging) == pytest.approx(10.54, abs=0.01)
    assert noise.of_one_run(final, MNIST, 90.0, columns(0.9, 0.9, 0.9)) == pytest.approx(0.3)
    assert final.swing(columns(0.9)) == 0
    assert final.swing(columns(*[0.1] * 20, *[0.9] * 10)) == pytest.approx(0, abs=1e-9)  # the last ten only


def test_an_archetypes_swing_is_its_own():
    rows = {"round": [1, 2], "group_accuracy": [[0.5, 0.2], [0.5, 0.4]]}
    assert measure("archetype 0").swing(rows) == 0
    assert measure("archetype 1").swing(rows) == pytest.approx(10.0)  # deviation 14.1, of a mean over two


@pytest.mark.parametrize("name", ["first weight_divergence", "change_last_10", "rounds_to_converge", "saving"])
def test_other_numbers_of_one_run_have_25_percent(name):
    assert noise.of_one_run(measure(name), MNIST, -20.0, columns(0.5, 0.9)) == pytest.approx(5.0)
    assert not noise.at_chance(measure(name), 1.0)


def test_what_a_methods_rules_bring_about_has_no_noise():
    stored = [run for of_recipe in Results(RESULTS).of_paper("fedcd2020").values() for run in of_recipe.values()
              if run.finished and "kept_models" in run.records]
    assert len(stored) >= 10
    for name, everywhere in (("last most_kept_by_a_device", 2.0), ("highest kept_models", 4.0 * 30)):
        assert noise.of_one_run(measure(name), MNIST, everywhere, columns(0.5, 0.9)) == 0
        assert {measure(name)(run.records) for run in stored} == {everywhere}


def test_several_seeds():
    assert noise.of_seeds([80.0, 84.0], 0.3) == pytest.approx(2.0)  # sqrt(8) / sqrt(2)
    assert noise.of_seeds([80.0, 80.0], 0.3) == 0.3  # they share the test set
    assert noise.of_seeds([80.0, 80.0], 0.0) == 0
    assert noise.of_seeds([80.0, 80.0], 0.0, 20.0) == pytest.approx(14.1, abs=0.05)  # two that agree by chance
    assert noise.of_seeds([80.0] * 5, 0.0, 20.0) == 0


@pytest.mark.parametrize(("accuracy", "at_chance"),
                         [(10.0, True), (11.35, True), (12.0, True), (12.1, False), (90.0, False)])
def test_chance(accuracy, at_chance):
    assert noise.at_chance(measure("final_accuracy"), accuracy) is at_chance


def test_a_data_set_of_unknown_size_is_refused():
    with pytest.raises(askew.AskewError, match="how many test examples 'npz' has is not known"):
        noise.of_test_set(measure("final_accuracy"), Recipe(data="npz(path='x.npz')"), 90.0)


def test_the_data_sets_of_the_papers_are_known():
    assert {recipe.data.name for item in all_items() for recipe in recipes_of(item)} <= set(noise.TEST_EXAMPLES)
    # another number of clips
    assert not any("0.02" in str(recipe.data) for item in all_items() for recipe in recipes_of(item))


def test_stored_accuracies_spread_about_as_the_test_set_allows():
    """What the module says of results/compare.json."""
    methods = json.loads((RESULTS / "compare.json").read_text())["methods"]
    digits = Recipe(data="digits()")
    ratios = [100 * m["test_accuracy_std"] / noise.of_test_set(measure("final_accuracy"), digits,
                                                               100 * m["test_accuracy_mean"])
              for m in methods]
    assert len(ratios) == 13
    assert (min(ratios), statistics.median(ratios), max(ratios)) == pytest.approx((0.26, 0.69, 1.99), abs=0.01)
    assert {len(m["accuracies"]) for m in methods} == {3}


def test_stored_divergences_spread_by_5_to_25_percent():
    """What the module says of zhao2018's figure 4."""
    results = Results(RESULTS)
    values = [value_of(row, results, item.paper) for item in all_items() if item.name.startswith("figure4-")
              and item.paper == "zhao2018"
              for row in item.rows]
    relative = [value.spread / value.mean for value in values]
    assert len(relative) == 112
    assert min(value.n for value in values) == 10
    assert statistics.median(relative) == pytest.approx(0.13, abs=0.005)
    tenths = statistics.quantiles(relative, n=10)
    assert (tenths[0], tenths[-1]) == pytest.approx((0.05, noise.RELATIVE), abs=0.005)
