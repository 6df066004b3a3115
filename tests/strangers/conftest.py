"""What the strangers' files share: a run in every form that an engine has."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import askew
from askew.engine.build import build_task
from askew.engine.functional import state_dict_of
from askew.engine.sequential import Sequential
from askew.rounds.simulation import Simulation
from askew.testing import can_compile, forms

# The recipes of its files share a network, a population and a number of clients, which torch then compiles once.
FORMS = {"one client after the other": Sequential, **forms(compiled=True)}
COMPILED = [pytest.mark.slow, pytest.mark.skipif(
    not can_compile(), reason="torch compiles for CPUs with g++ and Python's headers, which are not installed")]


@pytest.fixture(params=[pytest.param(name, marks=COMPILED if name == "compiled" else []) for name in FORMS])
def train(request: pytest.FixtureRequest) -> Callable[..., dict[str, Tensor]]:
    """`train(recipe)`: the model after all rounds; an engine that falls back to a plainer form fails."""

    def run(recipe: askew.Recipe, **objects: object) -> dict[str, Tensor]:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("error", UserWarning)
            task = build_task(recipe, **objects)
            simulation = Simulation(task, FORMS[request.param](task))
            for _ in range(recipe.rounds):
                simulation.advance()
            return state_dict_of(task.module, simulation.view())

    return run
