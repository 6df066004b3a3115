"""From stored runs to the table that people read, with numbers that can be checked by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from askew.core.recipe import Recipe
from askew.papers.decision import LOST
from askew.papers.item import StandIn
from askew.papers.papers import all_items, find
from askew.papers.store import Results, Run
from askew.papers.summary import CLAIMS, counts, summarise
from askew.papers.values import value_of


@pytest.fixture
def put(toy, tmp_path):
    """Store the accuracy of a recipe with a seed; None: it diverged."""

    def add(recipe: Recipe, seed: int, accuracy: float | None, finished: bool = True, scale="full"):
        records = {"round": [1], "accuracy": [accuracy]}
        run = Run(recipe.fingerprint, recipe.name, seed, recipe.to_toml(), 1, finished and accuracy is not None,
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


def test_one_lucky_seed_is_not_the_best_of_several_recipes(toy, put, tmp_path):
    row = toy[1].rows[1]
    for recipe, accuracies in zip(row.recipes, ([0.6] * 5, [0.7], [0.2] * 3), strict=True):
        for seed, accuracy in enumerate(accuracies):
            put(recipe, seed, accuracy)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert (value.mean, value.n, value.best) == (pytest.approx(60), 5, row.recipes[0])
    put(row.recipes[0], 5, None)  # one of six diverged
    assert value_of(row, Results(tmp_path), "toy2020").best == row.recipes[2]


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
    # near, but the row to tell it from is lost
    assert [row.verdict for row in summary.rows] == ["open", "differs", "differs"]


def test_an_item_from_not_run_to_measured(toy, put, tmp_path):
    iid, skewed, _ = toy[0].rows

    def now():
        return summarise(toy[0], Results(tmp_path))

    assert now().status == "not run"
    assert counts([now()]) == {"numbers": {"within": 0, "ordering holds": 0, "open": 0, "differs": 0,
                                           "not measured": 3},
                               "claims": {"hold": 0, "fail": 0, "open": 0, "not measured": 2}}
    put(skewed.recipes[0], 0, 0.30, finished=False)
    assert now().status == "not run"
    put(iid.recipes[0], 0, 0.91)
    assert now().status == "partial"
    put(skewed.recipes[0], 0, 0.30)
    summary = now()
    assert summary.status == "measured"
    # accuracies and a reduction are no ordering
    assert [row.verdict for row in summary.rows] == ["within", "differs", "differs"]
    assert [judged.decision for judged in summary.claims] == ["holds", "not measured"]
    shown = summary.as_mapping(12.0)
    assert shown["rows"][1] == {"name": "skewed", "unit": "%", "paper": 40, "paper_spread": 1.5, "about": False,
                                "ours": 30.0,
                                "spread": None, "noise": pytest.approx(2.415, abs=0.001),  # sqrt(30 * 70 / 360)
                                "n": 1, "diverged": 0, "verdict": "differs"}
    assert shown["claims"][0] == {"says": "Skew costs accuracy", "where": "section 1", "holds": True,
                                  "decision": "holds", "by": None}
    assert shown["claims"][1]["holds"] is None
    assert shown["variant"] is False
    assert shown["rows"][2]["ours"] == pytest.approx(61)
    assert (shown["runs"], shown["done"], shown["images"], shown["estimated_s"]) == (2, 2, 0, 12.0)
    once = {"within": 1, "ordering holds": 0, "open": 0, "differs": 2, "not measured": 0}
    assert counts([summary])["numbers"] == once
    assert counts([summary, summary])["numbers"] == once  # a figure that repeats a table's numbers
    variant = replace(summary, item=replace(summary.item, variant=True))
    assert counts([summary, variant]) == counts([summary])
    assert sum(counts([variant])["numbers"].values()) == sum(counts([variant])["claims"].values()) == 0


def test_rows_without_a_printed_number_have_no_verdict(toy, put, tmp_path):
    put(toy[1].rows[0].recipes[0], 0, 0.30)
    summary = summarise(toy[1], Results(tmp_path))
    assert (summary.rows[0].paper, summary.rows[0].verdict, summary.rows[0].ours.mean) == (None, None,
                                                                                           pytest.approx(30))
    assert summary.status == "partial"


def test_quick_never_counts_as_full(toy, put, tmp_path):
    table = toy[0]
    for row in table.rows[:2]:
        put(table.quick(row.recipes[0]), 0, 0.9 if row.name == "IID" else 0.4, scale="quick")
    assert summarise(table, Results(tmp_path)).status == "not run"
    quick = summarise(table, Results(tmp_path, "quick"))
    assert quick.status == "measured"
    assert [row.verdict for row in quick.rows] == ["differs"] * 2  # as near as can be, and two rows are no ordering
    assert [judged.decision for judged in quick.claims] == ["not measured"] * 2
    assert quick.as_mapping()["scale"] == "quick"


def test_noise_of_one_seed_and_of_several(toy, put, tmp_path):
    row, lost = toy[0].rows[0], toy[0].rows[2]
    put(row.recipes[0], 0, 0.80)
    assert value_of(row, Results(tmp_path), "toy2020").noise == pytest.approx((80 * 20 / 360) ** 0.5)
    put(row.recipes[0], 1, 0.90)
    assert value_of(row, Results(tmp_path), "toy2020").noise == pytest.approx(5)  # sqrt(50) / sqrt(2)
    put(lost.recipes[0], 0, 0.40)
    both = (80 * 20 / 360 + 40 * 60 / 360) ** 0.5
    assert value_of(lost, Results(tmp_path), "toy2020").noise == pytest.approx(both)  # of a difference, from both sides


def test_lost_runs_are_counted_against_the_recipe(toy, put, tmp_path):
    """One surviving seed of three; a run at chance; and of several recipes one that loses none is the best."""
    row = toy[0].rows[0]
    for seed, accuracy in enumerate((0.90, None, None)):
        put(row.recipes[0], seed, accuracy)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert (value.mean, value.n, value.lost, value.counts) == (pytest.approx(90), 1, 2, False)
    assert summarise(toy[0], Results(tmp_path)).rows[0].verdict == "differs"
    put(toy[0].rows[1].recipes[0], 0, 0.10)
    assert value_of(toy[0].rows[1], Results(tmp_path), "toy2020").lost == 1
    assert value_of(toy[0].rows[2], Results(tmp_path), "toy2020").lost == 3  # both sides of a reduction
    assert summarise(toy[0], Results(tmp_path)).claims[0].decision == LOST


def test_the_best_recipe_is_one_that_loses_no_run(toy, put, tmp_path):
    row = toy[1].rows[1]
    for recipe, accuracies in zip(row.recipes, ([0.5, 0.5], [0.8, None], [0.1]), strict=True):
        for seed, accuracy in enumerate(accuracies):
            put(recipe, seed, accuracy)
    value = value_of(row, Results(tmp_path), "toy2020")
    assert (value.mean, value.lost, value.best) == (pytest.approx(50), 0, row.recipes[0])


@pytest.mark.parametrize(("paper", "numbers"), [("zhao2018", 73), ("hsu2019", 4), ("fedcd2020", 7), ("fednnnn2020", 40),
                                                ("ozdayi2020", 10)])
def test_each_printed_number_is_counted_once(paper, numbers):
    """By hand: zhao2018 15 + 24 + 30 in its tables and 4 in section 4.2; ozdayi2020 10 different ones in all tables."""
    summaries = [summarise(item, Results(Path("nowhere"))) for item in find(paper)]
    assert counts(summaries)["numbers"] == {"within": 0, "ordering holds": 0, "open": 0, "differs": 0,
                                            "not measured": numbers}


NOISE = "open: within the noise"


@pytest.mark.parametrize(("own", "others", "decision", "by"), [
    ((0.9, None), (0.9, 0.5), "holds", "calm"), ((0.9, 0.1), (0.5, 0.9), "fails", "calm"),  # diverged; at chance
    ((None, None), (0.70, 0.69), NOISE, "calm"), ((0.9, None), (0.9, 0.1), LOST, None), ((0.9, None), (), LOST, None),
    ((0.9, 0.5), (0.5, 0.9), "holds", None), ((0.5, 0.9), (0.9, 0.5), "fails", None),  # its own runs come first
    ((0.70, 0.69), (0.9, 0.5), NOISE, None), ((0.9,), (0.9, 0.5), "not measured", None),  # more seeds would tell
])
def test_a_set_up_that_stands_in_answers_where_runs_diverged(toy, put, tmp_path, own, others, decision, by):
    def calm(recipe):
        return recipe.with_setting("sgd.lr", 0.01)

    item = replace(toy[0], stand_in=StandIn("calm", calm))
    for row, accuracy in zip(item.rows, own, strict=False):
        put(row.recipes[0], 0, accuracy)
    for row, accuracy in zip(item.rows, others, strict=False):
        put(calm(row.recipes[0]), 0, accuracy)
    summary = summarise(item, Results(tmp_path))
    costs, unknown = summary.claims
    assert (costs.decision, costs.by) == (decision, by)
    assert (unknown.decision, unknown.by) == ("not measured", None)  # one of its rows belongs to another item
    assert [claim["by"] for claim in summary.as_mapping()["claims"]] == [by, None]
    assert +Counter(counts([summary])["claims"]) == Counter([CLAIMS[decision.split(":")[0]], "not measured"])
    plain = summarise(toy[0], Results(tmp_path))  # numbers and runs stay the item's own
    assert summary.rows == plain.rows
    assert [(need.fingerprint, need.seed) for need in summary.needs] == [(n.fingerprint, n.seed) for n in plain.needs]
    assert all(judged.by is None for judged in summarise(item, Results(tmp_path, "quick")).claims)


@pytest.mark.parametrize(("own", "others", "decision", "by"), [
    ((0.9,), (), "not measured", None), ((), (0.9, 0.5), "holds", "smaller"), ((), (0.5, 0.9), "fails", "smaller"),
    ((), (0.9,), "not measured", None), ((), (0.9, None), "not measured", None),  # measured in part, or diverged
    ((0.9, 0.5), (0.5, 0.9), "holds", None), ((0.70, 0.69), (0.9, 0.5), NOISE, None),  # its own runs come first
])
def test_a_variant_answers_a_claim_in_the_same_words_where_a_grid_is_not_measured(toy, put, tmp_path, own, others,
                                                                                  decision, by):
    costs = toy[0].claims[0]
    rows = tuple(replace(row, name=f"smaller {row.name}").changed(lambda recipe: recipe.with_setting("sgd.lr", 0.01))
                 for row in toy[0].rows)
    names = {row.name: other.name for row, other in zip(toy[0].rows, rows, strict=True)}
    same = replace(costs, margins=lambda ours: costs.margins({row: ours[name] for row, name in names.items()}))
    variant = replace(toy[0], name="smaller", rows=rows, claims=(same,), variant=True)
    item = replace(toy[0], stand_in=StandIn("smaller", item=lambda: variant))
    for rows, accuracies in ((item.rows, own), (variant.rows, others)):
        for row, accuracy in zip(rows, accuracies, strict=False):
            put(row.recipes[0], 0, accuracy)
    first, second = summarise(item, Results(tmp_path)).claims
    assert (first.decision, first.by) == (decision, by)
    assert (second.decision, second.by) == ("not measured", None)  # the variant does not say it


@pytest.mark.parametrize("item", [item for item in all_items() if item.stand_in], ids=lambda item: item.address)
def test_what_stands_in_is_a_variant_of_the_paper_and_needs_no_runs_of_its_own(item):
    variants = {other.name: other for other in find(item.paper) if other.variant}
    its = {recipe.fingerprint for row in variants[item.stand_in.name].rows for recipe in row.recipes}
    assert not item.variant
    if item.stand_in.item:
        variant = item.stand_in.item()
        assert variant.name == item.stand_in.name
        assert {claim.says for claim in item.claims} & {claim.says for claim in variant.claims}
        return
    changed = {recipe.fingerprint for row in item.rows for recipe in row.changed(item.stand_in.change).recipes}
    # The literal reading of eq. (4) and the combinations that the paper does not print stand in no variant.
    assert changed - its == set() or item.address in ("ozdayi2020/table5", "ozdayi2020/grid")
