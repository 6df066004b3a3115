"""Settings that switch a method off give FedAvg, bit for bit, through whole runs."""

import pytest
import torch

import askew
from askew.pieces.methods import fedavgm, fedcd, fedprox, projected, server_momentum, sign_agreement

BASE = askew.Recipe(rounds=3, fraction=0.5, batch_size=40)


@pytest.fixture(scope="module")
def fedavg():
    return askew.run(BASE)


def assert_identical(one, other):
    for mine, theirs in zip(one.records, other.records, strict=True):
        assert {key: mine[key] for key in ("train_loss", "accuracy", "loss")} == \
               {key: theirs[key] for key in ("train_loss", "accuracy", "loss")}
    assert all(torch.equal(v, other.model[name]) for name, v in one.model.items())


@pytest.mark.parametrize("recipe", [
    fedavgm(BASE, beta=0.0), server_momentum(BASE, beta=0.0), fedprox(BASE, mu=0.0), sign_agreement(BASE, theta=0.0),
    projected(BASE, radius=float("inf")), projected(BASE, radius=1e6), projected(BASE, radius=1e6, centre="start"),
    BASE.replace(client=["add_gradient_noise(0.0)", "sgd(lr=0.1)"]),
    BASE.replace(client=[*BASE.client, "quantize(32)"], server=["mean()", "quantize(32)"]),
    BASE.replace(server=["mean()", "scale(1.0)"]), BASE.replace(server=["mean()", "evaluate_average()"]),
    BASE.replace(client=["sgd(lr=drops(decay(0.1, 1.0), at=[]), momentum=0.0, weight_decay=0.0)"]),
], ids=lambda recipe: f"{recipe.name}: {' '.join(map(str, (*recipe.client, *recipe.server)))}")
def test_switched_off_is_fedavg(recipe, fedavg):
    assert_identical(askew.run(recipe), fedavg)


@pytest.mark.parametrize("recipe", [
    fedavgm(BASE), server_momentum(BASE), fedprox(BASE, mu=1.0), sign_agreement(BASE), projected(BASE),
    projected(BASE, radius=1e6, noise=0.1), BASE.replace(client=[*BASE.client, "quantize(8)"]),
    BASE.replace(server=["mean()", "quantize(8)"]),
], ids=lambda recipe: f"{recipe.name}: {' '.join(map(str, (*recipe.client, *recipe.server)))}")
def test_switched_on_is_not(recipe, fedavg):
    other = askew.run(recipe)
    assert any(not torch.equal(v, other.model[name]) for name, v in fedavg.model.items())


def test_fedcd_without_milestones_is_fedavg_with_uniform_weights():
    """The same validation split is taken out of the training data on both sides; nothing is quantised."""
    base = BASE.replace(population=BASE.population + "validation(0.2)")
    plain = askew.run(base.replace(server=["mean(weights='uniform')"], judge="devices"))
    many = askew.run(fedcd(base, milestones=[], bits=32))
    assert_identical(many, plain)
    assert [record["active_models"] for record in many.records] == [1, 1, 1]
