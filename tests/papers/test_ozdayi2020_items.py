"""The items of ozdayi2020: hyper-parameters as printed, numbers as printed, claims that our values decide."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import askew
from askew.engine.build import build_task
from askew.papers.decision import missing_rows
from askew.papers.measures import measure
from askew.papers.numbers import printed
from askew.papers.ozdayi2020 import items as ozdayi2020
from askew.papers.papers import find
from askew.papers.plan import at_scale, images
from askew.pieces.methods import ozdayi_combination

ITEMS = {item.name: item for item in find("ozdayi2020")}
NEAREST = {"nearest": 0.03, "nearest-0.05": 0.05}  # item -> its first rate


def recipe_of(item, row):
    (recipe,) = next(r.recipes for r in ITEMS[item].rows if r.name == row)
    return recipe


@cache
def stand_in() -> askew.Dataset:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(800) % 10
    x = (255 * torch.rand((800, 3, 32, 32), generator=generator)).to(torch.uint8)
    return askew.Dataset("cifar10", askew.Examples(x, y), askew.Examples(x[:20], y[:20]), tuple("0123456789"))


def test_every_table_is_an_item():
    assert list(ITEMS) == ["table1", "table2", "table3", "table4", "table5", "combination", "clipped", "related",
                           "program", "nearest", "nearest-0.05", "grid", "figure1"]
    assert {item.seeds for item in ITEMS.values()} == {3}  # section 4.1: "repeated for 3 times"


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_rows_recipes_and_numbers_fit_together(item):
    names = [row.name for row in item.rows]
    assert len(set(names)) == len(names)
    assert set(printed(item)) <= set(names)
    assert set(item.quick_rows) <= set(names)
    assert all(measure(row.measure) for row in item.rows)
    for scale in ("full", "quick"):
        recipes = [recipe for row in at_scale(item, scale).rows for recipe in row.recipes]
        assert all(askew.Recipe.from_toml(recipe.to_toml()) == recipe for recipe in recipes)
    assert sum(images(recipe) for recipe in recipes) < 200_000  # quick


def test_hyper_parameters_are_those_of_section_4_1():
    for item in ITEMS.values():
        for row in item.rows:
            (recipe,) = row.recipes
            sgd = next(spec for spec in recipe.client if spec.name == "sgd")
            whole = item.name in ("program", *NEAREST)
            momentum = {"momentum": 0.9, "nesterov": True} if whole or item.name == "related" else {}
            momentum |= {"keep_momentum": True} if whole else {}
            falls = f"drops(start={NEAREST.get(item.name)}, at=[50, 75], factor=0.1)"
            assert str(sgd.args["lr"]) == (falls if item.name in NEAREST else "0.1")
            assert sgd.args == {"lr": sgd.args["lr"], "weight_decay": 0.0005} | momentum
            assert (recipe.rounds, recipe.epochs, recipe.batch_size, recipe.fraction) == (100, 1, 256, 1.0)
            network = "resnet20_fixup(scalar_rate=1.0)" if whole else "resnet20_fixup()"
            assert (str(recipe.data), str(recipe.model)) == ("cifar10()", network)
            if row.name == "Centralized":
                assert recipe.population.name == "pooled"
            elif row.name == "FL - IID":
                assert str(recipe.population) == "iid(clients=2)"
            else:
                assert str(recipe.population.scheme) == "label_blocks(clients=2)"  # classes 0-4 and 5-9


def test_remedies_are_those_of_tables_2_to_5():
    server = {row: [str(spec) for spec in recipe_of(item, row).server[1:]] for item, row in (
        ("table2", "server data 5%"), ("table4", "beta 0.5"), ("table4", "beta 0.9"), ("table5", "adjustable rate"),
        ("table5", "adjustable rate, eq. (4) as printed"))}
    assert list(server.values()) == [["train_on_server(epochs=1)"], ["momentum(beta=0.5)"], ["momentum(beta=0.9)"],
                                     ["mask_by_sign_agreement(theta=2.0)"],
                                     ["mask_by_sign_agreement(theta=2.0, literal=True)"]]
    assert str(recipe_of("table2", "server data 5%").population) == "label_blocks(clients=2) + hold_out(fraction=0.05)"
    step = {row.name: [str(spec) for spec in row.recipes[0].client if spec.name != "sgd"]
            for row in ITEMS["table3"].rows}
    assert step == {
        "no projection": [], "M=3": ["project_to_ball(radius=3.0, centre='origin')"],
        "M=3, noise 1e-4": ["add_gradient_noise(std=0.0001)", "project_to_ball(radius=3.0, centre='origin')"],
        "M=3, ball around the round's start": ["project_to_ball(radius=3.0, centre='start')"],
        "M=3, noise 1e-4, ball around the round's start": ["add_gradient_noise(std=0.0001)",
                                                           "project_to_ball(radius=3.0, centre='start')"]}


@pytest.mark.parametrize(("item", "sgd"), [
    ("clipped", "sgd(lr=0.1, weight_decay=0.0005)"),
    ("related", "sgd(lr=0.1, momentum=0.9, weight_decay=0.0005, nesterov=True)"),
])
def test_the_related_program_clips_and_has_momentum(item, sgd):
    step = [str(spec) for spec in recipe_of(item, "M=3, noise 1e-4").client]
    assert step == ["add_gradient_noise(std=0.0001)", "clip_gradient(length=10.0)", sgd,
                    "project_to_ball(radius=3.0, centre='start')"]
    for row in ITEMS[item].rows:  # otherwise the recipes are those of the tables
        (recipe,) = row.recipes
        plain = recipe.replace(client=[spec.with_args() if spec.name != "sgd" else "sgd(lr=0.1, weight_decay=0.0005)"
                                     for spec in recipe.client if spec.name != "clip_gradient"], name="")
        tables = [r for name in ("table1", "table2", "table3", "table4", "table5", "combination")
                  for r in ITEMS[name].rows]
        assert plain in [r.recipes[0].replace(name="") for r in tables]


def test_all_of_the_related_program():
    """Beside the optimiser: bounds of the update, noise on the aggregate (1e-4 x 3), a rate that falls on a plateau."""
    recipe = recipe_of("program", "M=3, noise 1e-4")
    sgd = "sgd(lr=0.1, momentum=0.9, weight_decay=0.0005, nesterov=True, keep_momentum=True)"
    assert [str(spec) for spec in recipe.client] == ["clip_gradient(length=10.0)", sgd, "scale_by_server()",
                                                   "project_to_ball(radius=3.0, centre='start')"]
    falls = "plateau(patience=15, factor=0.1)"
    assert [str(spec) for spec in recipe.server] == ["mean()", "add_update_noise(std=0.0003)", falls]
    for row in ITEMS["program"].rows:  # otherwise the recipes are those of `related`
        ours, theirs = row.recipes[0], recipe_of("related", row.name)
        added = ("add_update_noise", "plateau")
        assert [spec for spec in ours.server if spec.name not in added] == list(theirs.server)
        assert falls in map(str, ours.server)
        same = ours.replace(name=theirs.name, client=theirs.client, server=theirs.server, model=theirs.model)
        assert same == theirs


def test_momentum_at_the_server_is_an_average_in_the_nearest_set_up():
    """v <- beta v + (1 - beta) u: momentum, then 1 - beta; elsewhere, and in all other rows, as eq. (2) prints it."""
    server = {row.name: [str(spec) for spec in row.recipes[0].server[1:]] for row in ITEMS["nearest"].rows}
    plain = {row.name: [str(spec) for spec in row.recipes[0].server[1:]] for row in ITEMS["nearest-0.05"].rows}
    changed = {"beta 0.5": ["momentum(beta=0.5)", "scale(lr=0.5)"], "beta 0.9": ["momentum(beta=0.9)", "scale(lr=0.1)"],
               "combination": ["mask_by_sign_agreement(theta=2.0)", "momentum(beta=0.9)", "scale(lr=0.1)",
                               "train_on_server(epochs=1)"]}
    assert server == plain | changed
    assert {name: [spec for spec in specs if "scale" not in spec] for name, specs in changed.items()} == {
        name: plain[name] for name in changed}


def test_the_combination_is_that_of_the_text():
    ours = recipe_of("combination", "combination")
    combination = ozdayi_combination(ozdayi2020.BASE, theta=2.0, beta=0.9, hold_out=0.05)
    method = combination.with_setting("train_on_server.epochs", 1)
    assert ours == method.replace(name=ours.name)
    assert recipe_of("grid", "server data 5% + beta 0.9 + adjustable rate").replace(name="") == ours.replace(name="")
    assert len({row.recipes[0].replace(name="").to_toml() for row in ITEMS["grid"].rows}) == 2 * 2 * 3 * 2


def test_the_baseline_is_one_run_everywhere():
    rows = [("table1", "FL - NIID(5)"), ("table2", "server data 0%"), ("table3", "no projection"), ("table4", "beta 0"),
            ("table5", "fixed rate"), ("combination", "FL - NIID(5)"), ("grid", "FL - NIID(5)"),
            ("figure1", "FL - NIID(5)")]
    assert len({recipe_of(*row).to_toml() for row in rows}) == 1
    assert {printed(ITEMS[item])[row].value for item, row in rows[:-1]} == {73.0}
    drawn = recipe_of("figure1", "server data 5%")
    assert recipe_of("grid", "server data 5%").replace(name="") == drawn.replace(name="")


def test_numbers_as_printed():
    """Copied by hand: tables 1 to 5, and section 4.2."""
    hand = {("table1", "Centralized"): (90.4, 0.77), ("table1", "FL - IID"): (90.0, 0.08),
            ("table2", "server data 5%"): (83.7, 0.1),
            ("table3", "M=3"): (77.5, 2.3), ("table3", "M=3, noise 1e-4"): (79.6, 1.3),
            ("table4", "beta 0.5"): (80.9, 2.4),
            ("table4", "beta 0.9"): (75.9, 1.1), ("table5", "adjustable rate"): (78.5, 1.72),
            ("combination", "combination"): (85.7, 0.3)}
    for (item, row), (mean, spread) in hand.items():
        assert (printed(ITEMS[item])[row].value, printed(ITEMS[item])[row].spread) == (mean, spread)


def test_the_network_starts_beyond_the_ball_of_table_3():
    """What the note says: a norm of about 8, far beyond the radius of 3."""
    fresh = build_task(ozdayi2020.BASE, data=stand_in()).fresh.params
    assert sum(float(v.square().sum()) for v in fresh.values()) ** 0.5 == pytest.approx(8.4, abs=0.3)


@pytest.mark.parametrize("name", ["table1", "table5", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "table3", "combination", "clipped", "related", "program", "nearest"))])
def test_recipes_build(name):
    for scale in ("full", "quick"):
        for row in at_scale(ITEMS[name], scale).rows:
            (recipe,) = row.recipes
            task = build_task(recipe.with_setting("hold_out.use", None) if recipe.population.get("hold_out")
                              else recipe, data=stand_in())
            assert task.num_clients == (1 if row.name == "Centralized" else 2)


def test_conflicts_are_measured():
    """Agents with five classes each contradict each other on every image they have learnt; a run says so."""
    recipe = recipe_of("figure1", "FL - NIID(5)").replace(rounds=1, batch_size=8, model="small_cnn()")
    record = askew.run(recipe, data=stand_in()).records[0]
    assert record["conflicts_any"] > 0.9


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_claims_hold_of_the_papers_own_numbers_and_are_open_without_any(item):
    numbers = {name: p.value for name, p in printed(item).items()}
    for claim in item.claims:
        assert claim.where
        assert claim.holds({}) is None
        if item.name not in ("grid", "figure1"):
            assert claim.holds(numbers) is True, claim.says


@pytest.mark.parametrize(("item", "number", "changed"), [
    ("table1", 0, {"FL - IID": 85.0}), ("table1", 1, {"FL - NIID(5)": 80.0}), ("table2", 0, {"server data 5%": 75.0}),
    ("table3", 0, {"M=3": 74.0}), ("table3", 1, {"M=3, noise 1e-4": 78.0}), ("table4", 0, {"beta 0.5": 76.0}),
    ("table4", 1, {"beta 0.9": 82.0}), ("table5", 0, {"adjustable rate": 76.0}), ("combination", 0, {"beta 0.5": 84.0}),
    ("related", 0, {"FL - IID": 85.0}), ("related", 1, {"FL - NIID(5)": 80.0}), ("related", 2, {"beta 0.9": 72.0}),
    ("related", 3, {"beta 0.5": 84.0}), ("related", 3, {"combination": 83.0}),
    ("clipped", 2, {"adjustable rate": 72.0}), ("program", 2, {"adjustable rate": 72.0}),
    ("combination", 1, {"combination": 83.0}), ("combination", 2, {"combination": 84.0}),
    ("combination", 3, {"combination": 89.0}),
])
def test_claims_can_fail(item, number, changed):
    numbers = {name: p.value for name, p in printed(ITEMS[item]).items()} | changed
    assert ITEMS[item].claims[number].holds(numbers) is False


def test_what_is_not_the_papers_set_up_is_a_variant():
    assert [item.name for item in ITEMS.values() if item.variant] == ["clipped", "related", "program", *NEAREST]


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "table5", "combination", "figure1"])
def test_nearest_has_every_row_that_a_claim_of_the_tables_asks_for(name):
    """As printed, five classes an agent diverge: the claims are answered by the same rows of `nearest`."""
    item, nearest = ITEMS[name], {recipe.fingerprint for row in ITEMS["nearest"].rows for recipe in row.recipes}
    asked = {row for claim in item.claims for row in missing_rows(claim, {})}
    changed = {row.name: row.changed(item.stand_in.change).recipes[0].fingerprint for row in item.rows}
    assert asked
    assert {changed[row] for row in asked} <= nearest


def test_claims_about_grid_and_conflicts():
    best = "server data 5% + beta 0.9 + adjustable rate"
    grid = {row.name: 80.0 for row in ITEMS["grid"].rows} | {best: 85.7}
    (claim,) = ITEMS["grid"].claims
    assert claim.holds(grid) is True
    assert claim.holds(grid | {"beta 0.5": 90.0}) is False
    more, fewer = ITEMS["figure1"].claims
    assert more.holds({"FL - IID": 0.1, "FL - NIID(5)": 0.9}) is True
    assert more.holds({"FL - IID": 0.95, "FL - NIID(5)": 0.9}) is False
    assert fewer.holds({"server data 5%": 0.8, "FL - NIID(5)": 0.9}) is True
    assert fewer.holds({"server data 5%": 0.9, "FL - NIID(5)": 0.9}) is False
