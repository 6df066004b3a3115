"""fednnnn2020's table and figures: its settings, its printed numbers, and what decides its claims."""

import pytest
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.papers.fednnnn2020.items import METHODS, POPULATIONS
from askew.papers.measure import known
from askew.papers.measures import measure
from askew.papers.numbers import printed
from askew.papers.papers import find
from askew.runs.configuration import shape_of
from askew.runs.run import run

ITEMS = {item.name: item for item in find("fednnnn2020")}
TABLES = {"mnist": ITEMS["table2-mnist"], "cifar10": ITEMS["table2-cifar10"]}


def row(item, name):
    return next(row for row in item.rows if row.name == name)


def stand_in(data):
    """As many examples as 100 clients of two classes need, in the shape of the real ones."""
    shape = (1, 28, 28) if data == "mnist" else (3, 32, 32)
    y = torch.arange(1000) % 10
    x = torch.randint(0, 255, (1000, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Dataset(data, Examples(x, y), Examples(x[:50], y[:50]), tuple("0123456789"))


@pytest.fixture(scope="module")
def data():
    return {name: stand_in(name) for name in ("mnist", "cifar10")}


def test_every_table_and_figure_with_measurements_is_there():
    figures = [3, 4, 7, 8, 9, *range(10, 34)]  # 1, 2, 5 and 6 are drawings
    assert list(ITEMS) == ["table2-mnist", "table2-cifar10", *(f"figure{number}" for number in figures)]


@pytest.mark.parametrize("name", TABLES)
def test_each_cell_of_table_2_is_a_row_with_its_number(name):
    cells = [f"{method}, {population}" for population in POPULATIONS for method in METHODS]
    assert [row.name for row in TABLES[name].rows] == cells == list(printed(TABLES[name]))
    assert {number.unit for number in printed(TABLES[name]).values()} == {"%"}


def test_printed_numbers():
    """Copied from table 2 by hand."""
    mnist, cifar = (printed(TABLES[name]) for name in ("mnist", "cifar10"))
    assert [mnist[f"{method}, non-IID-UB"].value for method in METHODS] == [93.5, 87.9, 97.1, 96.9, 98.9]
    assert [mnist[f"{method}, IID-B"].value for method in METHODS] == [99.0, 99.0, 99.1, 99.1, 99.2]
    assert [cifar[f"{method}, non-IID-B"].value for method in METHODS] == [72.6, 74.2, 76.7, 74.3, 76.7]
    assert [cifar[f"{method}, non-IID-UB"].value for method in METHODS] == [56.6, 55.6, 55.5, 62.0, 61.9]
    assert all(printed(item) == {} for name, item in ITEMS.items() if name.startswith("figure"))


@pytest.mark.parametrize(("name", "rounds", "step", "model"), [
    ("mnist", 100, "sgd(lr=0.05)", "fednnnn_mnist_cnn()"),
    ("cifar10", 250, "sgd(lr=0.05, weight_decay=0.0005)", "fednnnn_cifar_cnn()")])
def test_settings_of_table_1(name, rounds, step, model):
    for each in TABLES[name].rows:
        (recipe,) = each.recipes
        assert (recipe.rounds, recipe.fraction, recipe.population.args["clients"]) == (rounds, 1.0, 100)
        assert (recipe.batch_size, recipe.epochs, str(recipe.client[-1])) == (50, 5, step)
        assert (str(recipe.data), str(recipe.model), [str(s) for s in recipe.preprocess]) == (f"{name}()", model,
                                                                                              ["normalise()"])
        assert str(recipe.server[0]) == "mean(weights='uniform')"  # the server does not know sizes
        assert each.measure == "best_accuracy"


# Table 5 by hand: mu, beta of Norm-Norm, gamma of Momentum, beta and gamma of FedNNNN.
@pytest.mark.parametrize(("name", "population", "mu", "scale", "momentum", "beta", "gamma"), [
    ("mnist", "IID-B", 0.005, 1.1, 0.8, 0.6, 0.7), ("cifar10", "IID-B", 0.015, 0.6, 0.9, 0.7, 0.8),
    ("mnist", "non-IID-B", 0.015, 1.0, 0.9, 0.7, 0.8), ("cifar10", "non-IID-B", 0.015, 0.6, 0.9, 0.6, 0.7),
    ("mnist", "IID-UB", 0.005, 1.0, 0.7, 0.7, 0.7), ("cifar10", "IID-UB", 0.005, 0.7, 0.9, 0.8, 0.8),
    ("mnist", "non-IID-UB", 0.02, 0.9, 0.8, 0.7, 0.8), ("cifar10", "non-IID-UB", 0.01, 0.7, 0.8, 0.7, 0.6)])
def test_arguments_of_table_5(name, population, mu, scale, momentum, beta, gamma):
    step = {m: [str(s) for s in row(TABLES[name], f"{m}, {population}").recipes[0].client[:-1]] for m in METHODS}
    server = {m: [str(s) for s in row(TABLES[name], f"{m}, {population}").recipes[0].server[1:]] for m in METHODS}
    assert step == {**{m: [] for m in METHODS}, "FedProx": [f"add_proximal(mu={mu})"]}
    assert server == {"FedAvg": [], "FedProx": [], "Momentum": [f"momentum(beta={momentum})"],
                      "Norm-Norm": [f"rescale_to_mean_norm(beta={scale})", "evaluate_average()"],
                      "FedNNNN": [f"rescale_to_mean_norm(beta={beta})", f"momentum(beta={gamma})",
                                  "evaluate_average()"]}


def test_federations(data):
    """Two classes a client in both skewed ones; equal sizes in the balanced ones, a few large clients in the others."""
    for name in POPULATIONS:
        population = build_task(row(TABLES["mnist"], f"FedAvg, {name}").recipes[0], data=data["mnist"]).population
        held = (population.counts > 0).sum(axis=1)
        assert (held == 2).all() if name.startswith("non") else held.mean() > 4
        sizes = sorted(population.sizes, reverse=True)
        assert sizes[0] > 20 * sizes[-1] if name.endswith("UB") else sizes[0] == sizes[-1]


def test_figures_show_the_runs_of_the_table():
    """Equal recipes are run once: the figures need one run besides, that of figures 3 and 4 with a single client."""
    table = {str(r) for item in TABLES.values() for each in item.rows for r in each.recipes}
    figures = {str(r) for name, item in ITEMS.items() if name.startswith("figure") for each in item.rows
               for r in each.recipes}
    (alone,) = figures - table
    assert "pooled" in alone
    assert ITEMS["figure7"].rows == ITEMS["figure25"].rows  # the paper shows it twice
    assert row(ITEMS["figure20"], "FedNNNN").recipes == row(TABLES["mnist"], "FedNNNN, non-IID-UB").recipes
    assert row(ITEMS["figure33"], "FedProx").recipes == row(TABLES["cifar10"], "FedProx, non-IID-UB").recipes


def test_methods_with_equal_steps_train_together():
    for item in TABLES.values():
        shapes = {method: {shape_of(each.recipes[0]) for each in item.rows if each.name.startswith(method)}
                  for method in METHODS}
        assert len(shapes["FedAvg"]) == 1
        assert shapes["FedAvg"] == shapes["Norm-Norm"] == shapes["Momentum"] == shapes["FedNNNN"] != shapes["FedProx"]


@pytest.mark.slow
def test_every_recipe_builds_and_can_be_written_down(data):
    recipes = {str(r): r for item in ITEMS.values() for each in item.rows
               for r in (*each.recipes, *map(item.quick, each.recipes))}
    assert len(recipes) == 2 * 41
    for recipe in recipes.values():
        assert Recipe.from_toml(recipe.to_toml()) == recipe
        build_task(recipe, data=data[recipe.data.name])


@pytest.mark.parametrize("name", ["table2-mnist", "figure3", "figure4", "figure9", "figure14"])
def test_a_reduced_run_gives_what_is_measured_and_drawn(name, data):
    item = ITEMS[name]
    last = item.quick(item.rows[-1].recipes[0]).replace(rounds=2, evaluate_every=1)
    records = run(last, data=data[last.data.name]).records
    columns = {key: [record.get(key) for record in records] for key in records[-1]}
    assert measure(item.rows[-1].measure)(columns) is not None
    for key in item.plot.y if item.plot else ():
        assert len(known(columns, key)) == 2


def test_the_reduced_table_has_the_skewed_federations():
    assert TABLES["mnist"].quick_rows == tuple(f"{m}, {p}" for p in ("non-IID-B", "non-IID-UB") for m in METHODS)
    assert TABLES["cifar10"].quick_rows == tuple(f"{m}, non-IID-B" for m in METHODS)


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_own_numbers_bear_its_claims_out(name):
    item = TABLES[name]
    ours = {cell: number.value for cell, number in printed(item).items()}
    assert [claim.holds(ours) for claim in item.claims] == [True] * len(item.claims)
    turned = {cell: -value for cell, value in ours.items()}
    assert [claim.holds(turned) for claim in item.claims] == [False] * len(item.claims)
    assert [claim.holds({}) for claim in item.claims] == [None] * len(item.claims)


def test_claims_look_at_their_own_rows():
    best_iid, best_b, best_ub, further = TABLES["mnist"].claims
    ours = {f"{method}, non-IID-B": value
            for method, value in zip(METHODS, (90.0, 91.0, 80.0, 91.0, 70.0), strict=True)}
    assert best_b.holds(ours) is False  # level with the best rival is not best
    ours["Momentum, non-IID-B"] = 91.5
    assert best_b.holds(ours) is True
    assert best_b.holds({**ours, "FedProx, non-IID-B": 92.0}) is False
    assert best_iid.holds(ours) is best_ub.holds(ours) is further.holds(ours) is None
    (cancel,) = ITEMS["figure3"].claims
    assert cancel.holds({"FedAvg, IID": 0.8, "FedAvg, non-IID": 0.3}) is True
    assert cancel.holds({"FedAvg, IID": 0.2, "FedAvg, non-IID": 0.3}) is False
    for name in ("figure8", "figure9"):
        (longer,) = ITEMS[name].claims
        assert longer.holds({"FedAvg": 3.0, "FedProx": 2.0, "FedNNNN": 4.0}) is True
        assert longer.holds({"FedAvg": 3.0, "FedProx": 5.0, "FedNNNN": 4.0}) is False
        assert longer.holds({"FedAvg": 3.0, "FedNNNN": 4.0}) is None
