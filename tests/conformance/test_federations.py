"""Federations of every shape in every form: sizes, steps, batches, fractions, chunks, recipes that train together."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from conform.federations import FEDERATIONS, of_sizes
from conform.forms import BATCHED, FORMS, LONG, apart, assert_same_training, cases, one_by_one, train
from conform.modules import CLASSES, deep_batch_norm
from conform.networks import data_of
from conform.pieces import normed
from torch import nn

import askew
from askew.core.dataset import Dataset
from askew.engine.build import build_task
from askew.engine.sample import sample
from askew.engine.sequential import Sequential
from askew.rounds.round import one_round
from askew.rounds.simulation import Simulation
from askew.runs.sweep import sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them


def plain():
    """LayerNorm, dropout, a convolution: nothing that needs two examples."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
                             nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, CLASSES))


def task_of(name):
    settings = dict(FEDERATIONS[name])
    data = data_of("images", examples=220)
    recipe = askew.Recipe(client=["add_gradient_noise(std=0.01)", "sgd(lr=0.05, momentum=0.5)"], seed=3)
    population = of_sizes(data, settings.pop("sizes"))
    return build_task(recipe.replace(**settings), data=data, population=population, model=plain())


@cache
def reference(name):
    task = task_of(name)
    return one_by_one(task, sample(task, 1))


@pytest.mark.parametrize(("name", "form"), cases(FEDERATIONS))
def test_each_client_trains_as_it_does_alone(name, form):
    """The clients that round 2 samples, with dropout, noise and momentum of their own."""
    task = task_of(name)
    assert_same_training(train(FORMS[form], task, sample(task, 1)), reference(name))


@pytest.mark.parametrize("form", BATCHED)
def test_an_engine_is_used_again_for_cohorts_of_other_sizes(form):
    """Memory that one round has left behind must not show in the next: many clients, few, many again."""
    task = task_of("more clients than a chunk holds")
    engine = FORMS[form](task)
    for clients in ([0, 1, 2, 3, 4, 5, 6, 7, 8], [3], [8, 2], [7, 5, 4, 3, 1], [6, 0]):
        assert_same_training(train(lambda _, **__: engine, task, clients, round=2), one_by_one(task, clients, round=2))


def small_digits():
    digits = askew.data.digits()
    return Dataset.from_tensors((digits.train.x[:240], digits.train.y[:240]), (digits.test.x[:50], digits.test.y[:50]),
                                name="few digits")


LANES = {
    "populations, seeds and rates": (None, [
        {"population": "label_blocks(clients=2) + hold_out(0.05)"}, {"population": "pooled()"},
        {"population": "power_law(clients=5, min_examples=3)", "seed": 4, "client": "sgd(lr=0.02, momentum=0.9)"},
        {"population": "iid(clients=3)", "seed": 5, "fraction": 0.4, "client": "sgd(lr=0.1, momentum=0.3)"}]),
    "batch norm, other numbers of steps": (normed, [
        {"population": "label_blocks(clients=2) + hold_out(0.05)"}, {"population": "pooled()"},
        {"population": "iid(clients=5)", "seed": 2}]),
    "deep batch norm, other numbers of steps": (deep_batch_norm, [
        {"population": "label_blocks(clients=2) + hold_out(0.05)"}, {"population": "pooled()"}]),
}


def lanes_of(name):
    model, variants = LANES[name]
    # At larger rates the deep network is chaotic: weights that differ by 1e-7 end up percents apart.
    base = askew.Recipe(rounds=2, batch_size=30, model="mlp(hidden=[16])",
                        client=f"sgd(lr={0.1 if model is None else 0.005}, momentum=0.5)")
    return [base.replace(**variant) for variant in variants], model() if model else None


@cache
def lane_references(name):
    recipes, model = lanes_of(name)
    data, found = small_digits(), []
    for recipe in recipes:
        task = build_task(recipe, data=data, model=model)
        simulation = Simulation(task, Sequential(task))
        start = simulation.view().params
        for _ in range(recipe.rounds):
            simulation.advance()
        found.append((start, simulation.view(), simulation.last_record))
    return found


def assert_same_models(name, got):
    for (start, model, record), (params, buffers, last) in zip(lane_references(name), got, strict=True):
        moved = {key: v - start[key] for key, v in model.params.items()}
        assert apart({key: params[key] - start[key] for key in moved}, moved) < 2e-3
        for key, v in model.buffers.items():
            torch.testing.assert_close(buffers[key], v, atol=1e-3, rtol=1e-3)
        assert last["loss"] == pytest.approx(record["loss"], rel=1e-3)


@pytest.mark.parametrize(("name", "form"), [
    (name, form) for name in LANES for form in BATCHED
    # The deep one takes the most, and meets eager and graphed, whole rounds and two clients at a time.
    if LONG or not name.startswith("deep") or form in ("eager", "graphed, two at a time")])
def test_recipes_that_train_together_train_as_they_do_alone(name, form):
    """Two rounds of several recipes in one computation, in every form; the sequential engine takes them one by one."""
    recipes, model = lanes_of(name)
    data = small_digits()
    tasks = [build_task(recipe, data=data, model=model) for recipe in recipes]
    engine = FORMS[form](tasks[0])
    simulations = [Simulation(task, engine) for task in tasks]
    for _ in range(2):
        gatherings = [simulation.begin() for simulation in simulations]
        for simulation, gathering, after in zip(simulations, gatherings, one_round(gatherings, engine), strict=True):
            simulation.complete(simulation.launched(gathering, after))
    assert_same_models(name, [(s.view().params, s.view().buffers, s.last_record) for s in simulations])


@pytest.mark.parametrize("engine", ["vectorised", "auto"])
@pytest.mark.parametrize("name", LANES)
def test_a_sweep_gives_what_each_recipe_gives_alone(name, engine):
    recipes, model = lanes_of(name)
    outcomes = sweep(recipes, data=small_digits(), model=model, engine=engine)
    assert [outcome.diverged for outcome in outcomes] == [None] * len(recipes)
    if engine == "vectorised":
        assert {outcome.together for outcome in outcomes} == {len(recipes)}
    assert_same_models(name, [(o.model, o.model, o.records[-1]) for o in outcomes])


@pytest.mark.parametrize(("name", "form"),
                         cases(["20 layers"], forms=["eager", "graphed", "graphed, two at a time", "compiled"]))
def test_deep_batch_norm_with_unequal_steps(name, form):
    """Clients that have finished stand idle beside others: what their empty batches give must stay finite."""
    data = small_digits()
    recipe = askew.Recipe(batch_size=16, client="sgd(lr=0.005)")
    task = build_task(recipe, data=data, population=of_sizes(data, [16, 96, 48, 60]),
                      model=deep_batch_norm(int(name.split()[0])))
    got, expected = train(FORMS[form], task), one_by_one(task)
    for client in expected:
        assert apart(got[client].update, expected[client].update) < 5e-3
        assert all(bool(v.isfinite().all()) for v in got[client].buffers.values())
