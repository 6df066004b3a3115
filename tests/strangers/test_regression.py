"""A regression with a loss of one's own, as somebody writes it who has read docs/objectives.md."""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import nn

import askew
from askew.core import rng
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample


@askew.piece("objective")
def log_cosh(scale: float = 1.0) -> askew.Objective:
    """log cosh((output - target) / scale), the mean over the numbers of an example."""

    def losses(output, target):
        z = (output - target) / scale
        return (z.abs() + nn.functional.softplus(-2 * z.abs()) - 0.6931472).mean(dim=1)

    def measures(output, target):
        return {"far": ((output - target).abs() > 0.5).float().mean(dim=1)}

    return askew.Objective(losses, measures, headline="far", targets="numbers")


def houses():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(260, 4, generator=generator)
    y = torch.stack([x[:, 0] - 2 * x[:, 1].square(), x[:, 2] * x[:, 3]], dim=1)
    return askew.Dataset.from_tensors((x[:200], y[:200]), (x[200:], y[200:]), targets="numbers")


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))


RECIPE = askew.Recipe(objective=log_cosh(0.5), population="power_law(clients=5, exponent=1.0, min_examples=10)",
                      batch_size=16, rounds=4, fraction=0.8, epochs=2, client=["sgd(lr=0.1, momentum=0.5)"])


@cache
def plain():
    task = build_task(RECIPE, data=houses(), model=network())
    model, data = network(), task.data.train
    for number in range(RECIPE.rounds):
        total, sums = 0, {}
        for client in sample(task, number):
            local, indices = copy.deepcopy(model), torch.from_numpy(task.population.train[client])
            optimiser = torch.optim.SGD(local.parameters(), 0.1, momentum=0.5)
            for batch in batches(indices, 2, 16, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                torch.log(torch.cosh((local(data.x[batch]) - data.y[batch]) / 0.5)).mean().backward()
                optimiser.step()
            total += len(indices)
            for name, v in local.state_dict().items():
                sums[name] = sums.get(name, 0) + len(indices) * v.double()
        model.load_state_dict({name: (v / total).float() for name, v in sums.items()})
    return model.state_dict()


def test_it_is_plain_pytorch_on_real_targets(train):
    got = train(RECIPE, data=houses(), model=network())
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=5e-5, rtol=1e-3)


def test_it_is_judged_by_its_own_measure():
    result = askew.run(RECIPE.replace(rounds=1), data=houses(), model=network())
    again, test = network(), houses().test
    again.load_state_dict(result.model)
    with torch.no_grad():
        far = float(((again(test.x) - test.y).abs() > 0.5).float().mean())
    assert abs(result.records[-1]["far"] - far) < 1e-6
