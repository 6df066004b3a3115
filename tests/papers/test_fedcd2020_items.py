from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import askew
from askew.core.dataset import Source
from askew.core.recipe import Recipe
from askew.papers.fedcd2020.items import BASE, HYPERGEOMETRIC, NEAREST, quick
from askew.papers.item import Item
from askew.papers.measures import measure
from askew.papers.numbers import printed
from askew.papers.papers import find
from askew.papers.plan import at_scale, needs, recipes_of
from askew.papers.store import Results, columns
from askew.partition import draw

ITEMS = {item.name: item for item in find("fedcd2020")}
CIFAR = Source(np.repeat(np.arange(10), 5_000), 10, test_labels=np.repeat(np.arange(10), 1_000))
TRAINED = [name for name, item in ITEMS.items() if recipes_of(item)]


def row(item: str, name: str) -> Recipe:
    return next(row.recipes[0] for row in ITEMS[item].rows if row.name == name)


def claim(item: str, words: str) -> object:
    return next(claim.holds for claim in ITEMS[item].claims if words in claim.says)


def differing(a: Recipe, b: Recipe) -> set[str]:
    return {field.name for field in dataclasses.fields(Recipe) if getattr(a, field.name) != getattr(b, field.name)}


def test_every_figure_and_the_table_are_there() -> None:
    assert set(ITEMS) == {*(f"figure{n}" for n in range(1, 10)), "table1", "figure6-kept", "table1-kept"}
    assert [name for name, item in ITEMS.items() if item.variant] == ["figure6-kept", "table1-kept"]
    assert all(item.paper == "fedcd2020" and item.seeds == 3 for item in ITEMS.values())


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_rows_have_their_own_names_known_measures_and_the_papers_numbers(item: Item) -> None:
    assert len({row.name for row in item.rows}) == len(item.rows)
    assert all(measure(row.measure) for row in item.rows)
    assert {where.where for where in printed(item).values()} <= {"table 1", "sections 3.5 and 3.6"}


def test_numbers_of_table_1() -> None:
    found = {name: number.value for name, number in printed(ITEMS["table1"]).items()}
    assert list(found.values()) == [50, 300, 3.488, 45, 300, 1.482]
    assert set(found) == {row.name for row in ITEMS["table1"].rows if "at its end" not in row.name}


def chains(recipe: Recipe) -> tuple[list[str], list[str]]:
    return [str(spec) for spec in recipe.client[1:]], [str(spec) for spec in recipe.server]


def test_fedavg_differs_from_fedcd_in_the_pool_alone() -> None:
    for item in ("figure1", "figure2", "figure4"):
        assert differing(row(item, "FedCD"), row(item, "FedAvg")) == {"name", "pool", "server"}
    for item in ("figure1", "figure4", "figure5"):
        assert differing(row(item, "FedCD" + NEAREST), row(item, "FedAvg" + NEAREST)) == {"name", "pool", "server"}


def test_the_papers_rows_have_the_notebooks_quantiser_and_the_variants_say_so() -> None:
    assert chains(row("figure1", "FedCD")) == (["quantize_at_random(bits=8)"], ["mean(weights='score')"])
    assert chains(row("figure1", "FedAvg")) == (["quantize_at_random(bits=8)"], ["mean()"])
    assert chains(row("figure1", "FedAvg" + NEAREST)) == (["quantize(bits=8)"], ["mean()", "quantize(bits=8)"])
    for item in ITEMS.values():
        for entry in item.rows:
            rounded = {spec.name for recipe in entry.recipes for spec in (*recipe.client, *recipe.server)
                       if spec.name.startswith("quant")
                       if spec.args["bits"] < 32}
            expected = "quantize" if entry.name.endswith(NEAREST) else "quantize_at_random"
            assert rounded <= {expected}, (item.name, entry.name)


def test_levels_of_quantisation_differ_in_nothing_else() -> None:
    assert differing(row("figure6", "8 bits"), row("figure6", "4 bits")) == {"client"}
    assert differing(row("figure6", "4 bits"), row("figure6", "32 bits")) == {"client", "server"}
    assert chains(row("figure6", "32 bits")) == (["quantize(bits=32)"], ["mean(weights='score')", "quantize(bits=32)"])
    assert differing(row("figure6", "4 bits"), row("figure6", "4 bits" + NEAREST)) == {"client", "server"}


def test_momentum_that_is_kept_is_all_that_differs_in_the_variants() -> None:
    """At both scales, row by row."""
    for item in ("figure6", "table1"):
        for scale in ("full", "quick"):
            kept = {row.name: row.recipes[0] for row in at_scale(ITEMS[f"{item}-kept"], scale).rows}
            plain = {row.name: row.recipes[0] for row in at_scale(ITEMS[item], scale).rows if NEAREST not in row.name}
            assert list(kept) == list(plain)
            for name, recipe in kept.items():
                (sgd, *behind), (before, *as_behind) = recipe.client, plain[name].client
                assert differing(recipe, plain[name]) == {"name", "client"}
                assert (sgd, behind) == (before.with_args(keep_momentum=True), as_behind)
    assert printed(ITEMS["table1-kept"]) == printed(ITEMS["table1"])


def test_every_stored_run_belongs_to_a_row() -> None:
    """A recipe whose text changes would leave its results behind, unseen."""
    stored = Results(Path(__file__).parents[2] / "results").of_paper("fedcd2020")
    assert stored
    shown = {recipe.fingerprint: row.name for item in ITEMS.values() for row in item.rows for recipe in row.recipes}
    assert set(stored) <= set(shown)
    for mark, runs in stored.items():
        for run in runs.values():
            assert Recipe.from_toml(run.recipe).fingerprint == mark, shown[mark]


def test_items_share_runs() -> None:
    main = row("figure1", "FedCD").fingerprint
    for item, name in (("figure6", "8 bits"), ("figure7", "models that some archetype prefers"),
                       ("figure8", "bias 0.6 to 0.7"), ("figure9", "bias 0.6 to 0.7")):
        assert row(item, name).fingerprint == main
    assert {r.fingerprint for r in recipes_of(ITEMS["figure8"])} == {r.fingerprint
                                                                     for r in recipes_of(ITEMS["figure9"])}


@pytest.mark.parametrize(("population", "images"), [
    (str(BASE.population), 5_000),  # the paper's number
    (str(HYPERGEOMETRIC.population), 4_803),  # all that the last archetype, with 83% of one label, can have
    (str(row("figure8", "bias 0.3").population), 5_000), (str(row("figure8", "bias 0.9").population), 4_443)])
def test_populations_at_the_papers_scale(population: str, images: int) -> None:
    drawn = draw(population, CIFAR, 0)
    assert drawn.num_clients == 30
    assert drawn.sizes.tolist() == [images] * 30


def test_claims_are_decided_by_the_values() -> None:
    better = {f"{method}, archetype {k}": value for k in range(10)
              for method, value in (("FedCD", 70 + k), ("FedAvg", 50))}
    every = claim("figure1", "every archetype")
    assert every(better)
    assert not every(better | {"FedAvg, archetype 9": 80})
    meta = claim("figure1", "Meta-archetype 0")
    assert meta(better)
    assert not meta(better | {f"FedCD, archetype {k}": 10 for k in range(5, 10)})
    skewed = {f"FedCD, archetype {k}": value for k, value in enumerate((90, 70, 60, 60, 70, 90))}
    assert claim("figure4", "Under FedCD")(skewed)
    assert not claim("figure4", "Under FedCD")(skewed | {"FedCD, archetype 2": 130})
    assert claim("figure6", "4 bits")({"32 bits": 80, "4 bits": 78.1})
    assert not claim("figure6", "4 bits")({"32 bits": 80, "4 bits": 77.9})
    assert claim("figure9", "approaches 0")({"bias 0.3": 0.0, "bias 0.6 to 0.7": 0.049, "bias 0.9": 0.01})
    assert not claim("figure9", "approaches 0")({"bias 0.3": 0.0, "bias 0.6 to 0.7": 0.06, "bias 0.9": 0.01})
    printed_or_seen = (50, 300, 5.0, 3.5, 45, 300, 12.0, 1.5)
    table = {row.name: value for row, value in zip(ITEMS["table1"].rows, printed_or_seen, strict=True)}
    assert all(claim.holds(table) for claim in ITEMS["table1"].claims)
    turned = {name: 300 - value for name, value in table.items()} | {
        "hierarchical, FedAvg:FedCD time": 0.9, "hierarchical, FedAvg at its end": 1.9}
    assert not any(claim.holds(turned)
                   for claim in ITEMS["table1"].claims)


def test_quick_keeps_what_is_compared() -> None:
    fedcd, fedavg = quick(row("figure1", "FedCD")), quick(row("figure1", "FedAvg"))
    assert differing(fedcd, fedavg) == {"name", "pool", "server"}
    assert fedcd.pool.args["milestones"][-1] < fedcd.rounds
    assert quick(row("figure2", "FedAvg")) == fedavg
    names = [recipe.fingerprint for item in ITEMS.values() for recipe in recipes_of(at_scale(item, "quick"))]
    assert len(set(names)) == 16  # ten, and six with momentum that is kept
    assert not any(row.name.endswith(NEAREST) for name in ("figure1", "figure4", "figure5")
                   for row in at_scale(ITEMS[name], "quick").rows)
    assert quick(row("figure6", "4 bits")) != quick(row("figure6", "8 bits"))


def trained_on_digits(recipe: Recipe) -> dict[str, list[object]]:
    """The quick version on the embedded digits."""
    population = recipe.population.with_args(examples=None)
    small = quick(recipe).replace(data="digits()", preprocess=(), population=population, model="mlp()",
                                  evaluate_every=1)
    return _trained(small.to_toml())


@cache
def _trained(recipe: str) -> dict[str, list[object]]:
    return columns(askew.run(Recipe.from_toml(recipe), engine="vectorised").records)


@pytest.mark.parametrize("name", ["figure1", "figure5", "figure7", "table1"])
def test_measures_find_their_columns_in_real_records(name: str) -> None:
    for row in ITEMS[name].rows:
        value = measure(row.measure)(trained_on_digits(row.recipes[0]))
        assert value is not None
        assert value >= 0, row.name


def test_fedcd_beats_fedavg_on_digits() -> None:
    better = {row.name: measure(row.measure)(trained_on_digits(row.recipes[0])) for row in ITEMS["figure1"].rows[:2]}
    assert better["FedCD"] > better["FedAvg"]
    columns = trained_on_digits(row("figure1", "FedCD"))
    assert max(columns["kept_models"]) > columns["kept_models"][0]  # milestones clone
    assert set(TRAINED) == set(ITEMS) - {"figure3"}


def test_cost_is_known_without_data() -> None:
    wanted = needs([ITEMS["figure1"]], Results(Path("nowhere")))
    assert len(wanted) == 12  # two methods, each with two quantisers, three seeds
    assert {need.images_left for need in wanted} == {50 * 15 * 3 * 5_000}
