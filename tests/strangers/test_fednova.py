"""FedNova, as somebody writes it who has read docs/add-a-method.md: one statistic, one piece."""

from __future__ import annotations

import copy
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Normalised(askew.Statistic):
    """sum_i n_i d_i / tau_i, sum_i n_i tau_i and sum_i n_i."""

    def add(self, total, message, senders):
        n, tau = senders.examples.double(), senders.steps.double()
        weights = n / tau
        directions = {name: torch.einsum("k,k...->...", weights.to(u.device), u.double())
                      for name, u in message["update"].items()}
        new = directions, (n * tau).sum(), n.sum()
        return new if total is None else self.merge(total, new)

    def merge(self, a, b):
        return {name: a[0][name] + b[0][name] for name in a[0]}, a[1] + b[1], a[2] + b[2]

    def value(self, total):
        return total


@askew.piece("server")
def nova() -> askew.Aggregator:
    """(sum_i p_i tau_i) sum_i p_i d_i / tau_i."""

    def update(u, state, ctx):
        directions, walked, n = ctx.cohort[Normalised()]
        scale = walked / n / n
        return {name: (scale.to(v.device) * v).float() for name, v in directions.items()}, state

    return askew.Aggregator(update, needs=[Normalised()])


RECIPE = askew.Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20) + subset(0.25)", batch_size=32,
                      rounds=3, fraction=0.7, model="mlp(hidden=[16])", client=["sgd(lr=0.05)"], server=[nova()])


@cache
def plain():
    """Wang et al. 2020, eq. (6) for plain SGD."""
    task = build_task(RECIPE)
    model, data, counts = copy.deepcopy(task.module), task.data.train, set()
    for number in range(RECIPE.rounds):
        clients = []
        for client in sample(task, number):
            local, tau = copy.deepcopy(model), 0
            optimiser = torch.optim.SGD(local.parameters(), 0.05)
            indices = torch.from_numpy(task.population.train[client])
            for batch in batches(indices, 1, 32, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(data.x[batch].float() / 255), data.y[batch]).backward()
                optimiser.step()
                tau += 1
            counts.add(tau)
            clients.append((len(indices), tau, local))
        total = sum(n for n, _, _ in clients)
        walk = sum(n / total * tau for n, tau, _ in clients)
        with torch.no_grad():
            for p, *theirs in zip(model.parameters(), *(local.parameters() for _, _, local in clients), strict=True):
                p += walk * sum(n / total * (q - p) / tau for (n, tau, _), q in zip(clients, theirs, strict=True))
    assert len(counts) > 3, "clients take unequal numbers of steps"
    return model.state_dict()


def test_it_is_the_papers_update(train):
    got = train(RECIPE)
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=5e-5, rtol=1e-3)


@pytest.mark.slow
def test_check_piece():
    check_piece(nova(), recipe=RECIPE, compiled=False)
