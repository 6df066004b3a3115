"""A configuration in a sweep has the result that it has alone."""

import pytest
import torch
from torch import nn

import askew
from askew.core.registry import piece
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import fedcd, fednnnn
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

BASE = askew.Recipe(population="dirichlet_per_class(clients=5, alpha=0.5)", batch_size=48, rounds=3, fraction=0.6)


def same(alone, together):
    assert [r["round"] for r in alone.records] == [r["round"] for r in together.records]
    for a, b in zip(alone.records, together.records, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=1e-4)
        assert a["accuracy"] == pytest.approx(b["accuracy"], abs=0.006)  # two of 360 test digits
    for name, v in alone.model.items():
        torch.testing.assert_close(together.model[name], v, rtol=1e-3, atol=1e-5)


def test_a_grid_is_all_combinations_the_last_axis_fastest():
    recipes = grid(BASE, {"sgd.lr": [0.01, 0.1], "seed": [0, 1, 2]})
    expected = [(lr, seed) for lr in (0.01, 0.1) for seed in (0, 1, 2)]
    assert [(r.client[0].args["lr"], r.seed) for r in recipes] == expected


@pytest.mark.parametrize("axes", [
    {"sgd.lr": [0.01, 0.1, 0.3]},
    {"seed": [0, 1, 2]},  # other starts, populations, samples and shuffles
    {"sgd.lr": [0.05, 0.1], "sgd.momentum": [0.5, 0.9], "sgd.weight_decay": [0.001, 0.1]},
    {"decay.start": [0.05, 0.3], "decay.factor": [0.5, 0.9]},
], ids=str)
def test_configurations_train_together_as_they_would_alone(axes):
    base = BASE.replace(client="sgd(lr=decay(0.1, 0.9), momentum=0.5, weight_decay=0.001)")
    recipes = grid(base, axes)
    outcomes = sweep(recipes, engine="vectorised")
    assert {id(o.simulation.engine) for o in outcomes} == {id(outcomes[0].simulation.engine)}, "one group"
    assert isinstance(outcomes[0].simulation.engine, Vectorised)
    for recipe, outcome in zip(recipes, outcomes, strict=True):
        assert outcome.recipe == recipe
        assert outcome.diverged is None
        same(askew.run(recipe, engine="sequential"), outcome)


def test_pieces_that_need_the_whole_model_take_a_value_each():
    recipes = grid(BASE.replace(client=["add_gradient_noise(0.01)", "sgd(lr=0.1)", "project_to_ball(radius=3.0)"]),
                   {"project_to_ball.radius": [2.0, 4.0], "add_gradient_noise.std": [0.001, 0.1]})
    for recipe, outcome in zip(recipes, sweep(recipes, engine="vectorised"), strict=True):
        same(askew.run(recipe, engine="sequential"), outcome)


def test_server_pieces_and_pools_may_differ_within_a_group():
    recipes = [BASE, fednnnn(BASE, beta=0.5), fednnnn(BASE, beta=1.0), BASE.replace(population="iid(clients=7)")]
    for recipe, outcome in zip(recipes, sweep(recipes, engine="vectorised"), strict=True):
        same(askew.run(recipe, engine="sequential"), outcome)


def test_unequal_shapes_are_scheduled_one_after_the_other():
    recipes = [BASE, BASE.replace(batch_size=8), BASE.replace(model="mlp(hidden=[8])"), fedcd(BASE, milestones=[1])]
    outcomes = sweep(recipes, engine="vectorised")
    assert len({id(o.simulation.engine) for o in outcomes}) == 4
    for recipe, outcome in zip(recipes, outcomes, strict=True):
        same(askew.run(recipe, engine="sequential"), outcome)


def test_one_that_diverges_does_not_stop_the_others():
    recipes = grid(BASE, {"sgd.lr": [0.1, 1e30, 0.05]})
    outcomes = sweep(recipes, engine="vectorised")
    assert "lower the learning rate" in (outcomes[1].diverged or "")
    assert [o.diverged is None for o in outcomes] == [True, False, True]
    same(askew.run(recipes[2], engine="sequential"), outcomes[2])


def test_a_warm_up_that_configurations_share_is_trained_once(monkeypatch):
    from askew.engine.local import train_pooled
    from askew.pieces.methods import data_sharing

    trained = []

    def counted(task, *args, **options):
        trained.append(task.recipe.name)
        return train_pooled(task, *args, **options)

    base = BASE.replace(population=BASE.population + "hold_out(0.2)", rounds=1)
    recipes = [data_sharing(base.with_setting("hold_out.use", use), alpha=alpha, warm_up_until=0.99)
               .with_setting("warm_up.epochs", 2).replace(name=f"{alpha} {use}")
               for alpha, use in ((0.2, 100), (0.8, 100), (0.8, 60))]
    alone = [askew.run(recipe, engine="sequential") for recipe in recipes]
    monkeypatch.setattr("askew.engine.start.train_pooled", counted)
    outcomes = sweep(recipes, engine="vectorised")
    assert trained == ["0.2 100"] * 2 + ["0.8 60"] * 2  # two epochs each
    for one, outcome in zip(alone, outcomes, strict=True):
        same(one, outcome)


class HalfFrozen(nn.Module):
    """Random features that are not trained, one frozen layer and one buffer of them, and a layer that is."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.out = nn.Linear(64, 16), nn.Linear(16, 10)
        self.features.requires_grad_(False)
        self.register_buffer("shift", torch.randn(16))

    def forward(self, x):
        return self.out(torch.relu(self.features(x.flatten(1)) + self.shift))


@piece("model")
def half_frozen(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return HalfFrozen()


def test_recipes_whose_frozen_weights_differ_do_not_share_them():
    """Each seed draws its own; one engine would have given all of them the first one's."""
    recipes = [askew.Recipe(model="half_frozen()", rounds=2, seed=seed) for seed in (0, 0, 1)]
    recipes[1] = recipes[1].with_setting("sgd.lr", 0.05)
    outcomes = sweep(recipes, engine="vectorised")
    assert [outcome.together for outcome in outcomes] == [2, 2, 1]
    for recipe, outcome in zip(recipes, outcomes, strict=True):
        alone = askew.run(recipe, engine="sequential")
        for name, v in alone.model.items():
            torch.testing.assert_close(outcome.model[name], v, atol=1e-5, rtol=1e-4)


def test_an_engine_that_falls_back_trains_each_recipe_with_its_own_data():
    """`vectorised` cannot take a network that draws by itself; the second recipe must not be trained as the first."""

    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(64, 10)

        def forward(self, x):
            return self.out(nn.functional.dropout(x.flatten(1), 0.2, self.training))

    torch.manual_seed(0)
    model = Draws()
    recipes = [askew.Recipe(rounds=1, seed=seed) for seed in (0, 1)]
    with pytest.warns(UserWarning, match="sequential is taken instead"):
        outcomes = sweep(recipes, model=model, engine="vectorised")
    for recipe, outcome in zip(recipes, outcomes, strict=True):
        assert outcome.together == 1
        alone = askew.run(recipe, model=model, engine="sequential")
        assert all(torch.equal(outcome.model[name], v) for name, v in alone.model.items())


@pytest.mark.parametrize("model", ["norm", "mixes"])
@pytest.mark.parametrize("steps", [
    ["sgd(lr=0.3)", "sgd(lr=0.0)"], ["sgd(lr=0.1, weight_decay=0.0)", "sgd(lr=0.1, weight_decay=0.5)"],
    ["sgd(lr=0.1, momentum=0.1)", "sgd(lr=0.1, momentum=0.9)"]], ids=["rate", "decay", "momentum"])
def test_rates_belong_to_their_recipe_where_batches_differ_in_size(model, steps):
    """BatchNorm takes clients with equal batches together: not the first rows of the group."""

    class Mixes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(64, 10)

        def forward(self, x):
            x = x.flatten(1)
            return self.out(x - x.mean(0))

    torch.manual_seed(0)
    network = Mixes() if model == "mixes" else nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8),
                                                             nn.Linear(8, 10))
    base = BASE.replace(batch_size=0, epochs=2, rounds=2, fraction=1.0)
    recipes = [base.replace(client=step) for step in steps]
    for recipe, outcome in zip(recipes, sweep(recipes, model=network, engine="vectorised"), strict=True):
        alone = askew.run(recipe, model=network, engine="sequential")
        for name, v in alone.model.items():
            torch.testing.assert_close(outcome.model[name], v, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("values", [(0.0, 0.5), (0.5, 0.0)])
def test_noise_of_one_recipe_does_not_hang_on_that_of_another(values):
    recipes = [BASE.replace(client=[f"add_gradient_noise({v})", "sgd(lr=0.1)"], epochs=2) for v in values]
    for recipe, outcome in zip(recipes, sweep(recipes, engine="vectorised"), strict=True):
        alone = askew.run(recipe, engine="sequential")
        for name, v in alone.model.items():
            torch.testing.assert_close(outcome.model[name], v, atol=1e-4, rtol=1e-3)
