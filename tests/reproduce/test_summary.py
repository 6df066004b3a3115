"""From stored runs to the table that people read, with numbers that can be checked by hand."""

import pytest

from askew.core.recipe import Recipe
from askew.reproduce.store import Results, Run, fingerprint
from askew.reproduce.summary import counts, summarise
from askew.reproduce.values import value_of


@pytest.fixture
def put(toy, tmp_path):
    """Store the accuracy of a recipe with a seed; None: it diverged."""

    def add(recipe: Recipe, seed: int, accuracy: float | None, finished: bool = True, scale="full"):
        records = {"round": [1], "accuracy": [accuracy]}
        run = Run(fingerprint(recipe), recipe.name, seed, recipe.to_toml(), 1, finished and accuracy is not None,
                  "it broke" if accuracy is None else None, {}, 1.0, 1, records)
        Results(tmp_path, scale).add([(toy[0], run)])

    return add


def test_mean_and_spread_over_seeds(toy, put, tmp_path):
    row = toy[0].rows[0]
    assert value_of(row, Results(tmp_path), "toy2020").measured is False
    put(row.recipes[0], 0, 0.80)
    one = value_of(row, Results(tmp_path), "toy2020")
    assert (one.mean, one.spread, one.n) == (pytest.approx(80), None, 1)
    put(row.recipes[0], 1, 0.84)
    put(row.recipes[0], 2, None)
    put(row.recipes[0], 3, 0.1, finished=False)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert (value.mean, value.n, value.diverged) == (pytest.approx(82), 2, 1)
    assert value.spread == pytest.approx(8**0.5)  # sqrt((4 + 4) / 1)


def test_the_best_of_several_recipes(toy, put, tmp_path):
    row = toy[1].rows[1]
    for recipe, accuracies in zip(row.recipes, ([0.5, 0.5], [0.4, 0.8], [None]), strict=True):
        assert not value_of(row, Results(tmp_path), "toy2020").measured  # the best of some is not the best of all
        for seed, accuracy in enumerate(accuracies):
            put(recipe, seed, accuracy)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert value.mean == pytest.approx(60)
    assert value.best == row.recipes[1]


def test_a_reduction_is_taken_seed_by_seed(toy, put, tmp_path):
    row = toy[0].rows[2]
    put(row.recipes[0], 0, 0.40)
    assert not value_of(row, Results(tmp_path), "toy2020").measured
    for seed, accuracy in ((0, 0.90), (1, 0.80), (2, 0.70)):
        put(row.less_than[0], seed, accuracy)
    put(row.recipes[0], 1, 0.36)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert (value.mean, value.n) == (pytest.approx(47), 2)  # (50 + 44) / 2; seed 2 has one side only
    assert value.spread == pytest.approx(18**0.5)


def test_all_runs_diverged(toy, put, tmp_path):
    put(toy[0].rows[1].recipes[0], 0, None)
    summary = summarise(toy[0], Results(tmp_path))
    assert [row.verdict for row in summary.rows] == [None, "differs", None]
    assert summary.status == "partial"
    put(toy[0].rows[0].recipes[0], 0, 0.9)
    summary = summarise(toy[0], Results(tmp_path))
    assert summary.status == "measured"
    assert [row.verdict for row in summary.rows] == ["within", "differs", "differs"]


def test_an_item_from_not_run_to_measured(toy, put, tmp_path):
    iid, skewed, _ = toy[0].rows

    def now():
        return summarise(toy[0], Results(tmp_path))

    assert now().status == "not run"
    assert counts([now()]) == {"numbers": {"within": 0, "ordering holds": 0, "differs": 0, "not measured": 3},
                               "claims": {"hold": 0, "fail": 0, "not measured": 2}}
    put(skewed.recipes[0], 0, 0.30, finished=False)
    assert now().status == "not run"
    put(iid.recipes[0], 0, 0.91)
    assert now().status == "partial"
    put(skewed.recipes[0], 0, 0.30)
    summary = now()
    assert summary.status == "measured"
    assert [row.verdict for row in summary.rows] == ["within", "ordering holds", "ordering holds"]
    assert [holds for _, holds in summary.claims] == [True, None]
    shown = summary.as_mapping(12.0)
    assert shown["rows"][1] == {"name": "skewed", "unit": "%", "paper": 40, "paper_spread": 1.5, "about": False, "ours": 30.0,
                                "spread": None, "n": 1, "diverged": 0, "verdict": "ordering holds"}
    assert shown["rows"][2]["ours"] == pytest.approx(61)
    assert (shown["runs"], shown["done"], shown["images"], shown["estimated_s"]) == (2, 2, 0, 12.0)
    once = {"within": 1, "ordering holds": 2, "differs": 0, "not measured": 0}
    assert counts([summary])["numbers"] == once
    assert counts([summary, summary])["numbers"] == once  # a figure that repeats a table's numbers


def test_rows_without_a_printed_number_have_no_verdict(toy, put, tmp_path):
    put(toy[1].rows[0].recipes[0], 0, 0.30)
    summary = summarise(toy[1], Results(tmp_path))
    assert (summary.rows[0].paper, summary.rows[0].verdict, summary.rows[0].ours.mean) == (None, None, pytest.approx(30))
    assert summary.status == "partial"


def test_quick_never_counts_as_full(toy, put, tmp_path):
    table = toy[0]
    for row in table.rows[:2]:
        put(table.quick(row.recipes[0]), 0, 0.9 if row.name == "IID" else 0.4, scale="quick")
    assert summarise(table, Results(tmp_path)).status == "not run"
    quick = summarise(table, Results(tmp_path, "quick"))
    assert quick.status == "measured"
    assert [row.verdict for row in quick.rows] == ["ordering holds"] * 2
    assert [holds for _, holds in quick.claims] == [None, None]
    assert quick.as_mapping()["scale"] == "quick"
