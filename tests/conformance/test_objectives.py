"""Targets of every kind through every engine form: the steps of plain PyTorch, and the same records."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
from conform.federations import of_sizes
from conform.forms import FORMS, Trained, assert_same_training, cases, one_by_one, rounds, train
from conform.objectives import PROBLEMS, build
from conform.pieces import PIECES

import askew
from askew.core import registry, rng
from askew.engine.build import build_task
from askew.engine.functional import state_dict_of
from askew.engine.local import batches
from askew.engine.sequential import Sequential

RECIPE = askew.Recipe(client="sgd(lr=0.2, momentum=0.5)", batch_size=8, epochs=2, rounds=2)
SIZES = [3, 38, 18, 8, 26]  # no batch of one example, which BatchNorm cannot take


@cache
def task_of(name):
    data = PROBLEMS[name].data()
    return build_task(RECIPE.replace(objective=PROBLEMS[name].objective), data=data, population=of_sizes(data, SIZES),
                      model=build(name))


@cache
def plain(name, round=1):
    """One round of every client with modules, torch.optim.SGD and torch's own losses; batches are askew's."""
    task, found = task_of(name), {}
    for client in range(task.num_clients):
        network, x, y = build(name), task.data.train.x, task.data.train.y
        dtype = next(network.parameters()).dtype
        before, losses = copy.deepcopy(network.state_dict()), []
        optimiser = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.5)
        owned = torch.from_numpy(task.population.train[client])
        for batch in batches(owned, RECIPE.epochs, RECIPE.batch_size, rng.key(0, "client", round, client)):
            optimiser.zero_grad()
            loss = PROBLEMS[name].loss(network(x[batch] if x.dtype == torch.int64 else x[batch].to(dtype)), y[batch])
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        update = {key: p.detach() - before[key] for key, p in network.named_parameters()}
        found[client] = Trained(update, dict(network.named_buffers()), sum(losses) / len(losses))
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_by_one_equals_plain_pytorch(name):
    assert_same_training(one_by_one(task_of(name)), plain(name), tolerance=1e-4)


# Compiled in the long run; in CI a regression with a loss of its own is, in tests/strangers/test_regression.py.
@pytest.mark.parametrize(("name", "form"), cases(PROBLEMS))
def test_every_form_equals_plain_pytorch(name, form):
    assert_same_training(train(FORMS[form], task_of(name)), plain(name))


@cache
def reference(name):
    return records(Sequential, name)


def records(make, name):
    simulation = rounds(make, task_of(name), 0)
    return [simulation.advance() for _ in range(RECIPE.rounds)]


@pytest.mark.parametrize(("name", "form"), cases(PROBLEMS, forms=["eager", "graphed, two at a time", "compiled"]))
def test_every_form_records_the_same(name, form):
    objective = task_of(name).objective
    for got, expected in zip(records(FORMS[form], name), reference(name), strict=True):
        assert got.keys() == expected.keys() >= {"train_loss", "loss", objective.headline}
        for key, value in expected.items():
            assert got[key] == pytest.approx(value, rel=1e-3,
                                             abs=0.02 if "accuracy" in key or key == "exact_match" else 1e-5), key


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_recorded_numbers_are_those_of_the_model(name):
    """Loss and headline of the test set, from the network itself."""
    task = task_of(name)
    simulation = rounds(Sequential, task, 1)
    network = build(name)
    network.load_state_dict(state_dict_of(task.module, simulation.view()))
    network.eval()
    x, y = task.data.test.x, task.data.test.y
    with torch.no_grad():
        output = network(x if x.dtype == torch.int64 else x.to(next(network.parameters()).dtype)).float()
        assert simulation.last_record["loss"] == pytest.approx(float(PROBLEMS[name].loss(output, y)), rel=1e-5)
        assert simulation.last_record[task.objective.headline] == pytest.approx(
            float(task.objective.scores(output, y).float().mean()))


def test_every_objective_has_a_problem():
    calls = {str(registry.parse("objective", call)) for calls in PIECES["objective"].values() for call in calls}
    assert calls == {problem.objective for problem in PROBLEMS.values()}
