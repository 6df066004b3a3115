"""A rate per client, by its number and by its examples, as somebody writes it who has read docs/add-a-method.md."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
import torch.nn.functional as F

import askew
from askew.core import rng
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample
from askew.testing import check_piece


@askew.piece("client")
def own_rates(rates: list[float], at: float = 100.0) -> askew.Optimiser:
    """Client k steps by rates[k] min(1, at / n_k): large clients walk slower."""

    def update(g, state, ctx):
        table = torch.tensor(rates, device=next(iter(g.values())).device)
        rate = table[torch.as_tensor(ctx.client)] * (at / torch.as_tensor(ctx.examples)).clamp(max=1.0)
        return {name: -rate * v for name, v in g.items()}, state

    return askew.Optimiser(update)


RATES = [0.3, 0.02, 0.1, 0.2, 0.05, 0.15]
RECIPE = askew.Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20) + subset(0.25)", batch_size=32,
                      rounds=3, fraction=0.7, model="mlp(hidden=[16])", client=[own_rates(RATES, at=50.0)])


@cache
def plain():
    task = build_task(RECIPE)
    model, data = copy.deepcopy(task.module), task.data.train
    assert min(task.population.sizes) < 50 < max(task.population.sizes)
    for number in range(RECIPE.rounds):
        total, sums = 0, {}
        for client in sample(task, number):
            local, indices = copy.deepcopy(model), torch.from_numpy(task.population.train[client])
            optimiser = torch.optim.SGD(local.parameters(), RATES[client] * min(1.0, 50 / len(indices)))
            for batch in batches(indices, 1, 32, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(data.x[batch].float() / 255), data.y[batch]).backward()
                optimiser.step()
            total += len(indices)
            for name, v in local.state_dict().items():
                sums[name] = sums.get(name, 0) + len(indices) * v.double()
        model.load_state_dict({name: (v / total).float() for name, v in sums.items()})
    return model.state_dict()


def test_each_client_has_its_rate(train):
    got = train(RECIPE)
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=5e-5, rtol=1e-3)


@pytest.mark.slow
def test_check_piece():
    check_piece(own_rates(RATES, at=50.0), recipe=RECIPE, compiled=False)
