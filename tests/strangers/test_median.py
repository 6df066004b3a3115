"""A median at the server, by somebody who has read docs/add-a-method.md: a statistic that keeps all, and a piece."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
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
class AllUpdates(askew.Statistic):
    """Every client's update, as it comes."""

    keeps_all: ClassVar[bool] = True

    def add(self, total, message, senders):
        rows = {name: u.clone() for name, u in message["update"].items()}
        return rows if total is None else self.merge(total, rows)

    def merge(self, a, b):
        return {name: torch.cat([a[name], b[name]]) for name in a}

    def value(self, total):
        return total


@askew.piece("server")
def middle_one() -> askew.Aggregator:
    """Coordinate by coordinate; of an even number, half-way between the two in the middle."""

    def update(u, state, ctx):
        return {name: torch.quantile(v, 0.5, dim=0) for name, v in ctx.cohort[AllUpdates()].items()}, state

    return askew.Aggregator(update, needs=[AllUpdates()])


RECIPE = askew.Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20) + subset(0.25)", batch_size=32,
                      rounds=3, fraction=0.7, model="mlp(hidden=[16])", client=["sgd(lr=0.2)"], server=[middle_one()])


@cache
def plain():
    task = build_task(RECIPE)
    model, data = copy.deepcopy(task.module), task.data.train
    for number in range(RECIPE.rounds):
        models = []
        for client in sample(task, number):
            local, indices = copy.deepcopy(model), torch.from_numpy(task.population.train[client])
            optimiser = torch.optim.SGD(local.parameters(), 0.2)
            for batch in batches(indices, 1, 32, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(data.x[batch].float() / 255), data.y[batch]).backward()
                optimiser.step()
            models.append(local.state_dict())
        assert len(models) == 4, "an even number: the harder case"
        model.load_state_dict({name: torch.from_numpy(np.median([m[name].numpy() for m in models], axis=0))
                               for name in models[0]})
    return model.state_dict()


def test_it_is_numpys_median_of_the_models(train):
    got = train(RECIPE)
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=5e-5, rtol=1e-3)


@pytest.mark.slow
def test_check_piece():
    check_piece(middle_one(), recipe=RECIPE, compiled=False)
