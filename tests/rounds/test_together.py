"""The servers of many configurations as one computation: what each of them gets is what it would get alone."""

from __future__ import annotations

import pytest
import torch

import askew
from askew.engine import vectorised
from askew.rounds import round as module
from askew.rounds import together
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

BASE = askew.Recipe(rounds=3, population="shards(clients=6, shards_per_client=2)", batch_size=60,
                    client="sgd(lr=0.1)")
SEEDS = {"seed": [0, 1], "sgd.lr": [0.03, 0.1]}
# method -> (numbers in which configurations differ, whether its server can be batched)
CASES = {
    "fedavg": (SEEDS, True), "fedavgm": ({"momentum.beta": [0.1, 0.5, 0.8, 0.9]}, True),
    "fednnnn": ({"rescale_to_mean_norm.beta": [0.3, 0.7], "momentum.beta": [0.1, 0.8]}, True),
    "sign_agreement": ({"mask_by_sign_agreement.theta": [1.0, 2.0, 3.0, 4.0]}, True),
    "fedadam": ({"adam.lr": [0.01, 0.03], "adam.beta2": [0.9, 0.99]}, True), "fedyogi": (SEEDS, True),
    "fedadagrad": (SEEDS, True), "scaffold": (SEEDS, True), "feddyn": ({"sgd.lr": [0.03, 0.1], "seed": [0, 1]}, True),
    "fednova": (SEEDS, True), "fedexp": (SEEDS, True), "median": (SEEDS, True),
    "dp_fedavg": ({"add_noise.multiplier": [0.0, 0.1, 0.5, 1.0]}, True),
    "trimmed_mean": ({"trimmed_mean.share": [0.0, 0.1, 0.2, 0.3]}, False),  # it cuts by a number that is then a tensor
    "server_training": ({"sgd.lr": [0.01, 0.03, 0.1, 0.2]}, False),  # training is one computation after the other
}


@pytest.mark.parametrize("method", CASES)
def test_together_as_alone(method, monkeypatch):
    axes, batched = CASES[method]
    recipes, used = grid(getattr(askew.methods, method)(BASE), axes), []
    plain = module.aggregate_together
    monkeypatch.setattr(module, "aggregate_together", lambda *work: used.append(plain(*work)) or used[-1])
    outcomes = sweep(recipes, engine="vectorised")
    assert len(used) == BASE.rounds
    assert all(len(made) == (len(recipes) if batched else 0) for made in used)
    assert_as_alone(recipes, outcomes, monkeypatch)


def assert_as_alone(recipes, outcomes, monkeypatch):
    monkeypatch.setattr(together, "FROM", len(recipes) + 1)
    for outcome, alone in zip(outcomes, sweep(recipes, engine="vectorised"), strict=True):
        for name, v in alone.model.items():
            torch.testing.assert_close(outcome.model[name], v, rtol=1e-6, atol=1e-7)
        assert [record["train_loss"] for record in outcome.records] == pytest.approx(
            [record["train_loss"] for record in alone.records])


def test_servers_of_several_kinds_each_with_its_own(monkeypatch):
    """FedAvg and FedAvgM train together, and their servers are two computations; a lone third goes by itself."""
    recipes = [recipe for method in (askew.methods.fedavg, askew.methods.fedavgm)
               for recipe in grid(method(BASE), SEEDS)] + [askew.methods.fedexp(BASE)]
    used, plain = [], together._aggregated
    monkeypatch.setattr(together, "_aggregated", lambda *work: used.append(len(work[0])) or plain(*work))
    outcomes = sweep(recipes, engine="vectorised")
    assert used == BASE.rounds * [4, 4]
    assert_as_alone(recipes, outcomes, monkeypatch)


@pytest.mark.parametrize(("chunk_jobs", "parts"), [(30, [5, 5]), (36, [5, 5]), (16, [])])
def test_more_clients_than_an_engine_takes_at_once(monkeypatch, chunk_jobs, parts):
    """Ten configurations of six clients: by halves; in quarters, of 2.5 configurations, all go by themselves."""
    recipes = grid(askew.methods.fedavgm(BASE), {"seed": [0, 1], "momentum.beta": [0.0, 0.2, 0.4, 0.6, 0.8]})
    used, plain = [], together._aggregated
    monkeypatch.setattr(together, "_aggregated", lambda *work: used.append(len(work[0])) or plain(*work))
    monkeypatch.setitem(vectorised.CHUNK_JOBS, "cpu", chunk_jobs)
    outcomes = sweep(recipes, engine="vectorised")
    assert used == BASE.rounds * parts
    assert_as_alone(recipes, outcomes, monkeypatch)


def test_one_configuration_that_diverges_does_not_touch_the_others():
    recipes = grid(askew.methods.fedavgm(BASE), {"sgd.lr": [0.1, 1e30, 0.03, 0.05]})
    outcomes = sweep(recipes, engine="vectorised")
    assert [outcome.diverged is not None for outcome in outcomes] == [False, True, False, False]
    assert torch.isfinite(outcomes[0].model["fc1.weight"]).all()
