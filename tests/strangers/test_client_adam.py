"""Adam at the clients with AMSGrad's maximum, kept between rounds, by somebody who has read docs/add-a-method.md."""

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
def amsgrad(rate: float, a: float = 0.9, b: float = 0.99, tiny: float = 1e-4) -> askew.Optimiser:
    """torch.optim.Adam(amsgrad=True), whose moments a client takes along from round to round."""

    def keep(model):
        zeros = {name: torch.zeros_like(v) for name, v in model.params.items()}
        one = torch.ones((), device=next(iter(zeros.values())).device)
        return {"m": zeros, "v": dict(zeros), "top": dict(zeros), "power": (one, one)}  # a^t and b^t, from t = 0 on

    def update(g, state, ctx):
        first, second = state["power"][0] * a, state["power"][1] * b
        m = {name: a * state["m"][name] + (1 - a) * v for name, v in g.items()}
        v = {name: b * state["v"][name] + (1 - b) * x * x for name, x in g.items()}
        top = {name: torch.maximum(state["top"][name], x) for name, x in v.items()}
        step = {name: -rate * (m[name] / (1 - first)) / ((top[name] / (1 - second)).sqrt() + tiny) for name in g}
        return step, {"m": m, "v": v, "top": top, "power": (first, second)}

    return askew.Optimiser(update, keep, begin=lambda kept, ctx: kept,
                           end=lambda message, state, kept, ctx: (message, state))


RECIPE = askew.Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20) + subset(0.25)", fraction=0.7,
                      batch_size=32, rounds=3, model="mlp(hidden=[16])", client=[amsgrad(0.01)])


@cache
def plain():
    task = build_task(RECIPE)
    model, data = copy.deepcopy(task.module), task.data.train
    locals_ = [copy.deepcopy(model) for _ in range(task.num_clients)]
    optimisers = [torch.optim.Adam(local.parameters(), 0.01, (0.9, 0.99), 1e-4, amsgrad=True) for local in locals_]
    for number in range(RECIPE.rounds):
        total, sums = 0, {}
        for client in sample(task, number):
            local, indices = locals_[client], torch.from_numpy(task.population.train[client])
            local.load_state_dict(model.state_dict())
            for batch in batches(indices, 1, 32, rng.key(0, "client", number, client)):
                optimisers[client].zero_grad()
                F.cross_entropy(local(data.x[batch].float() / 255), data.y[batch]).backward()
                optimisers[client].step()
            total += len(indices)
            for name, v in local.state_dict().items():
                sums[name] = sums.get(name, 0) + len(indices) * v.double()
        model.load_state_dict({name: (v / total).float() for name, v in sums.items()})
    return model.state_dict()


def test_it_is_torchs_optimiser_kept_per_client(train):
    got = train(RECIPE)
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_check_piece():
    check_piece(amsgrad(0.01), recipe=RECIPE, compiled=False)
