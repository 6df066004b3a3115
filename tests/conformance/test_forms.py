"""Every recipe of the table in every form of every engine: what the sequential engine makes of it."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from conform.forms import FORMS, cases, rounds
from conform.pieces import RECIPES

from askew.engine.choice import ENGINES
from askew.engine.sequential import Sequential
from askew.engine.task import build_task

# Compiling a network for a CPU takes 10 to 60 s; CI compiles these, the long run all.
COMPILED = ["state that starts at 1", "batchnorm and dropout"]


def task_of(name):
    recipe, model = RECIPES[name]
    return build_task(recipe, model=model() if model else None)


def run(make, name):
    """The models and records of a whole run."""
    with torch.random.fork_rng(devices=[]):
        task, records = task_of(name), []
        simulation = rounds(make, task, 0)
        while not simulation.finished:
            records.append(simulation.advance())
    return {number: entry.model for number, entry in simulation.models.items()}, records


@cache
def reference(name):
    return run(Sequential, name)


@pytest.mark.parametrize(("name", "form"), cases(RECIPES, compiled=COMPILED))
def test_every_form_equals_the_sequential_engine(name, form):
    """Three rounds: weights within a relative difference of 1e-4, and what is recorded of them."""
    models, records = reference(name)
    got, recorded = run(FORMS[form], name)
    assert set(got) == set(models)
    for number, theirs in models.items():
        mine = got[number]
        assert (mine.params.keys(), mine.buffers.keys()) == (theirs.params.keys(), theirs.buffers.keys())
        for key, v in theirs.params.items():
            assert float((mine.params[key] - v).norm() / v.norm()) < 1e-4, (number, key)
        for key, v in theirs.buffers.items():
            torch.testing.assert_close(mine.buffers[key], v, atol=1e-4, rtol=1e-4)
    for mine, theirs in zip(recorded, records, strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-3)
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert mine["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.01)
        for exact in ("round", "clients", "bytes_up", "bytes_down"):
            assert mine[exact] == theirs[exact]


def test_every_engine_has_a_form():
    """An engine that joins the list must join the table of forms."""
    made = {make(task_of("unequal clients, several epochs")).name for make in FORMS.values()}
    assert made | {"sequential"} == set(ENGINES)
