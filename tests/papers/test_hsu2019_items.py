"""hsu2019's figures: its settings, its printed numbers, and what decides its claims."""

import numpy as np
import pytest
import torch

import askew.partition
from askew.core.dataset import Dataset, Examples, Source
from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.papers.hsu2019.items import ALPHAS, BETAS, FRACTIONS, RATES
from askew.papers.numbers import printed
from askew.papers.papers import find
from askew.runs.configuration import shape_of
from askew.runs.run import run

ITEMS = {item.name: item for item in find("hsu2019")}
PANELS = ["c0.05-e1", "c0.1-e1", "c0.2-e1", "c0.4-e1", "c0.05-e5", "c0.1-e5", "c0.2-e5", "c0.4-e5"]
QUOTED = ITEMS["figure5-c0.05-e1"]


def row(item, name):
    return next(row for row in item.rows if row.name == name)


def rates(recipes):
    return [(spec.args["lr"], next((s.args["beta"] for s in recipe.server if s.name == "momentum"), 0.0))
            for recipe in recipes for spec in recipe.client]


@pytest.fixture(scope="module")
def data():
    """1,000 images in the shape of CIFAR-10: of each class a pattern of 4x4 squares, in noise."""
    y, random = torch.arange(1000) % 10, torch.Generator().manual_seed(0)
    coarse = 150 * torch.randint(0, 2, (10, 3, 4, 4), generator=random)
    patterns = coarse.repeat_interleave(8, 2).repeat_interleave(8, 3)
    x = (patterns[y] + torch.randint(0, 100, (1000, 3, 32, 32), generator=random)).to(torch.uint8)
    return Dataset("cifar10", Examples(x, y), Examples(x[:200], y[:200]), tuple("0123456789"))


def test_every_figure_is_there():
    assert list(ITEMS) == ["figure1", "figure2", "figure3", "short", "figure4-c0.05-e1", "figure4-c0.4-e1",
                           "figure4-c0.05-e5", "figure4-c0.4-e5",
                           *(f"figure5-{panel}" for panel in PANELS), "abstract",
                           *(f"figure6-{panel}" for panel in PANELS)]
    assert all(item.seeds == 5 for item in ITEMS.values() if item.name != "figure1")
    measures = {each.measure for item in ITEMS.values() for each in item.rows if each.recipes}
    assert measures == {"mean_last_10", "swing_last_10"}
    assert [each.name for each in ITEMS["figure3"].rows if each.measure == "swing_last_10"] == [
        "alpha=100, C=0.05, swing", "alpha=0, C=0.05, swing"]


def test_printed_numbers():
    """Copied from the abstract and section 4.2 by hand."""
    numbers = {name: {of: number.value for of, number in printed(item).items()} for name, item in ITEMS.items()
               if printed(item)}
    assert numbers == {"abstract": {"FedAvg": 30.1, "FedAvgM": 76.9}, "figure3": {"centralised": 86.0},
                       "figure5-c0.05-e1": {"FedAvg, alpha=0": 35}}  # "above 75%" is a claim
    assert all(number.about for number in printed(QUOTED).values())
    assert not any(number.about for number in printed(ITEMS["abstract"]).values())


def test_grids():
    assert ALPHAS == (100, 10, 1, 0.5, 0.2, 0.1, 0.05, 0)
    assert FRACTIONS == (0.05, 0.1, 0.2, 0.4)
    assert RATES == (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
    assert BETAS == (0, 0.7, 0.9, 0.97, 0.99, 0.997)


def test_settings_of_section_4():
    for item in ITEMS.values():
        for each in item.rows:
            for recipe in each.recipes:
                if each.name == "centralised":
                    continue
                assert recipe.batch_size == 64
                assert (recipe.rounds, recipe.evaluate_every) == ((2_000, 20) if item.variant else (10_000, 100))
                assert recipe.population.args["clients"] == 100
                assert recipe.client[0].args["weight_decay"] == 0.004
                assert isinstance(recipe.client[0].args["lr"], float)
                assert [str(s) for s in (*recipe.preprocess, recipe.model)] == ["tf_cifar()", "mcmahan_cifar_cnn()"]


def test_figure_2_takes_the_best_of_eight_rates():
    item = ITEMS["figure2"]
    assert len(item.rows) == 2 * 4 * 8
    cell = row(item, "E=5, C=0.2, alpha=0.05")
    assert rates(cell.recipes) == [(lr, 0) for lr in RATES]
    assert {(r.epochs, r.fraction, r.population.args["alpha"]) for r in cell.recipes} == {(5, 0.2, 0.05)}
    assert (cell.series, cell.x) == ("E=5, C=0.2", 0.05)
    assert row(item, "E=1, C=0.05, alpha=0").x > 0  # a logarithmic axis has no place for 0


def test_figure_4_is_figure_2_rate_by_rate():
    for epochs, fraction in ((1, 0.05), (5, 0.4)):
        item = ITEMS[f"figure4-c{fraction}-e{epochs}"]
        for alpha in ("100", "0.2", "0"):
            points = [row(item, f"alpha={alpha}, lr={lr:g}") for lr in RATES]
            tuned = row(ITEMS["figure2"], f"E={epochs}, C={fraction}, alpha={alpha}")
            assert tuple(p.recipes[0] for p in points) == tuned.recipes
            assert [p.x for p in points] == list(RATES)


def test_figure_5_compares_fedavg_with_nesterov_momentum_at_the_server():
    full = ITEMS["figure5-c0.4-e5"]
    assert rates(row(full, "FedAvg, alpha=1").recipes) == [(lr, 0) for lr in RATES]
    with_momentum = row(full, "FedAvgM, alpha=1").recipes
    assert rates(with_momentum) == [(lr, beta) for beta in BETAS[1:] for lr in RATES]
    assert {str(r.server[1]) for r in with_momentum} == {f"momentum(beta={beta}, nesterov=True)" for beta in BETAS[1:]}


def test_the_quoted_panel_is_measured_on_part_of_the_grid():
    assert rates(row(QUOTED, "FedAvg, alpha=100").recipes) == [(0.01, 0), (0.03, 0), (0.1, 0)]
    assert rates(row(QUOTED, "FedAvg, alpha=0").recipes) == [(0.003, 0), (0.01, 0), (0.03, 0)]
    for alpha in ("10", "1", "0.5", "0.2", "0.1", "0.05"):
        assert rates(row(QUOTED, f"FedAvg, alpha={alpha}").recipes) == [(0.01, 0), (0.03, 0)]
    for alpha, effective in (("100", [0.1, 0.03]), ("0.5", [0.1, 0.03]), ("0.2", [0.01, 0.03]), ("0.05", [0.01, 0.03]),
                             ("0", [0.01, 0.03, 0.01, 0.03])):
        pairs = rates(row(QUOTED, f"FedAvgM, alpha={alpha}").recipes)
        assert [lr / (1 - beta) for lr, beta in pairs] == pytest.approx(effective)
    assert {(r.fraction, r.epochs) for each in QUOTED.rows for r in each.recipes} == {(0.05, 1)}
    assert sum(len(each.recipes) for each in QUOTED.rows) == 2 * 3 + 6 * 2 + 7 * 2 + 4
    assert row(ITEMS["abstract"], "FedAvgM").recipes == row(QUOTED, "FedAvgM, alpha=0").recipes
    assert row(ITEMS["abstract"], "FedAvg").recipes == row(QUOTED, "FedAvg, alpha=0").recipes


def test_figure_6_of_the_quoted_panel_shares_runs_with_figure_5():
    item = ITEMS["figure6-c0.05-e1"]
    low, high = ([rates(each.recipes)[0] for each in item.rows if each.name.startswith(betas)]
                 for betas in (("beta=0,", "beta=0.7"), "beta=0.9"))
    assert low == [(0.01, 0), (0.03, 0), (0.1, 0), (0.003, 0.7), (0.01, 0.7), (0.03, 0.7)]
    assert high == [(0.01, 0.9), (0.001, 0.97), (0.0003, 0.99)]
    shared = {r.fingerprint for name in ("FedAvg", "FedAvgM") for r in row(QUOTED, f"{name}, alpha=1").recipes}
    assert shared <= {each.recipes[0].fingerprint for each in item.rows}


def test_the_short_item_is_the_beginning_of_figures_2_and_3():
    item, figure2, figure3 = ITEMS["short"], ITEMS["figure2"], ITEMS["figure3"]
    assert item.variant
    assert len(item.rows) == 4 * 4 + 2
    for each in item.rows:
        assert _whole(each) in row(figure2, each.name).recipes
        assert rates(each.recipes) == [(0.01, 0)]
    assert _whole(row(item, "E=1, C=0.4, alpha=0.1")) == row(figure3, "alpha=0.1, C=0.4").recipes[0]
    says = [claim.says for claim in item.claims]
    assert says[:3] == [claim.says for claim in figure2.claims[:3]]  # so that each finds its own
    assert "E = 5" in figure2.claims[3].says  # two cells cannot refute it
    assert figure2.stand_in.item().address == item.address
    assert figure3.stand_in is None  # what happens within 10,000 rounds is not to be seen after 2,000


def _whole(row):
    return row.recipes[0].replace(rounds=10_000, evaluate_every=100)


def test_figure_6_runs_over_the_effective_rate_at_alpha_1():
    item = ITEMS["figure6-c0.1-e5"]
    point = row(item, "beta=0.97, lr=0.003")
    assert point.x == pytest.approx(0.1)
    recipes = [recipe for each in item.rows for recipe in each.recipes]
    assert {(r.fraction, r.epochs, r.population.args["alpha"]) for r in recipes} == {(0.1, 5, 1)}
    assert len(item.rows) == 48
    # beta 0 is FedAvg
    assert row(item, "beta=0, lr=0.01").recipes[0] in row(ITEMS["figure5-c0.1-e5"], "FedAvg, alpha=1").recipes


def test_runs_of_one_local_epoch_train_together():
    shapes = {shape_of(recipe) for each in (*QUOTED.rows, *ITEMS["figure6-c0.4-e1"].rows) for recipe in each.recipes}
    assert len(shapes) == 1


def test_populations_of_figure_1_can_be_drawn():
    """From labels alone; at alpha 0 each client has one class, but for the last to draw, who take what is left."""
    source = Source(np.arange(50_000) % 10, 10)
    drawn = {each.name: askew.partition.draw(each.name, source) for each in ITEMS["figure1"].rows}
    sizes = {name: set(population.sizes.tolist()) for name, population in drawn.items()}
    assert list(sizes.values()) == [{5000}] + [{500}] * 8
    held = {name: float((population.counts > 0).sum(axis=1).mean()) for name, population in drawn.items()}
    assert held["shards(clients=10, shards_per_client=2, distinct=True)"] == 2
    assert 1 <= held["dirichlet(clients=100, alpha=0)"] < 1.2
    assert held["dirichlet(clients=100, alpha=100)"] > 9
    assert ITEMS["figure1"].plot.kind == "populations"
    assert not any(each.recipes for each in ITEMS["figure1"].rows)


def test_recipes_build_and_can_be_written_down(data):
    shown = {str(r): r for name in ("figure3", "figure5-c0.05-e1", "figure6-c0.4-e5") for each in ITEMS[name].rows
             for r in each.recipes}
    for recipe in shown.values():
        assert Recipe.from_toml(recipe.to_toml()) == recipe
    for each in (*ITEMS["figure3"].rows, *QUOTED.rows[-4:]):
        build_task(each.recipes[0], data=data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FedAvg, alpha=0", "FedAvgM, alpha=0"])
def test_a_reduced_run_trains(name, data):
    first, *others = (QUOTED.quick(recipe) for recipe in row(QUOTED, name).recipes)
    assert all(other == first for other in others)  # the grid becomes one run
    short = first.replace(rounds=60, evaluate_every=60)
    assert run(short, data=data).accuracy > 0.4  # 0.7 and 0.9; chance is 0.1
    still = short.with_setting("sgd.lr", 0.0).replace(rounds=1, evaluate_every=1)  # more of them would change nothing
    assert run(still, data=data).accuracy < 0.2  # so that the line above can fail


def test_reduced_rows_are_rows():
    for item in ITEMS.values():
        assert set(item.quick_rows) <= {each.name for each in item.rows}


def decisions(item, ours):
    return [claim.holds(ours) for claim in item.claims]


@pytest.mark.parametrize("name", ["figure2", "short"])
def test_claims_of_figure_2(name):
    item = ITEMS[name]

    def accuracy(skew_costs, epochs_cost):
        """Falls where alpha is below 1, less with more clients; E = 5 gains or loses."""
        values = {}
        for each in item.rows:
            recipe = each.recipes[0]
            alpha, few = recipe.population.args["alpha"], 0.05 / recipe.fraction
            skew = max(0.0, 1 - alpha)
            values[each.name] = 80 - skew_costs * skew * (30 + 10 * few) - epochs_cost * (recipe.epochs == 5)
        return values

    of_epochs = name == "figure2"  # with a claim about E besides
    assert decisions(item, accuracy(1, -1))[:3 + of_epochs] == [True, True, True, True][:3 + of_epochs]
    assert decisions(item, accuracy(1, 1))[:3 + of_epochs] == [True, True, True, False][:3 + of_epochs]
    assert decisions(item, accuracy(-1, 1))[:3 + of_epochs] == [False] * (3 + of_epochs)
    assert decisions(item, {}) == [None] * len(item.claims)


def test_claims_of_figure_5():
    ours = {f"FedAvg, alpha={alpha:g}": 35.0 if alpha == 0 else 74.0 for alpha in ALPHAS}
    ours |= {f"FedAvgM, alpha={alpha:g}": 76.9 for alpha in ALPHAS}
    assert decisions(QUOTED, ours) == [True, True, True]
    assert decisions(QUOTED, {**ours, "FedAvgM, alpha=0.5": 73.0}) == [False, False, True]
    assert decisions(QUOTED, {**ours, "FedAvg, alpha=0": 45.0}) == [True, True, False]
    del ours["FedAvgM, alpha=0.05"]
    assert decisions(QUOTED, ours) == [None, None, True]


def test_claims_of_figures_3_4_and_6():
    curves = {f"alpha={alpha}, C={fraction}": 40.0 + 10 * (fraction == "0.4") for alpha in ("0.1", "0")
              for fraction in ("0.05", "0.4")}
    swings = {"alpha=100, C=0.05, swing": 0.3, "alpha=0, C=0.05, swing": 8.0}
    assert decisions(ITEMS["figure3"], swings) == [True, True]
    assert decisions(ITEMS["figure3"], {**swings, "alpha=0, C=0.05, swing": 1.0}) == [True, False]
    assert decisions(ITEMS["figure3"], {**swings, "alpha=100, C=0.05, swing": 9.0}) == [False, True]
    assert decisions(ITEMS["figure3"], curves) == [None, None]
    short = {f"E=1, C={fraction}, alpha={alpha}": curves[f"alpha={alpha}, C={fraction}"]
             for alpha in ("0.1", "0") for fraction in ("0.05", "0.4")}
    assert decisions(ITEMS["short"], short)[-1] is True
    assert decisions(ITEMS["short"], {**short, "E=1, C=0.05, alpha=0.1": 60.0})[-1] is False
    by_rate = {f"alpha={alpha}, lr={lr:g}": 70.0 for alpha in ("100", "0") for lr in RATES}
    assert decisions(ITEMS["figure4-c0.05-e1"], {**by_rate, "alpha=0, lr=0.1": 10.0}) == [True]
    assert decisions(ITEMS["figure4-c0.05-e1"], by_rate) == [False]
    assert decisions(ITEMS["figure4-c0.05-e1"], {"alpha=0, lr=0.1": 10.0}) == [None]
    points = {each.name: 50.0 for each in ITEMS["figure6-c0.05-e1"].rows}
    assert decisions(ITEMS["figure6-c0.05-e1"], {**points, "beta=0.99, lr=0.0003": 60.0}) == [True]
    assert decisions(ITEMS["figure6-c0.05-e1"], {**points, "beta=0.7, lr=0.03": 60.0}) == [False]
    assert decisions(ITEMS["figure6-c0.05-e1"], {}) == [None]


def test_the_claim_of_the_abstract():
    assert decisions(ITEMS["abstract"], {"FedAvg": 30.1, "FedAvgM": 76.9}) == [True]
    assert decisions(ITEMS["abstract"], {"FedAvg": 60.0, "FedAvgM": 76.9}) == [False]
    assert decisions(ITEMS["abstract"], {"FedAvg": 60.0}) == [None]
