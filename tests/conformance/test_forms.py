"""Every recipe of the table in every form of every engine: what the sequential engine makes of it."""

from __future__ import annotations

import io
from functools import cache

import pytest
import torch
from conform.forms import FORMS, LONG, cases, in_turns, rounds
from conform.pieces import RECIPES, REMEMBERING

import askew
from askew.core.compat import tree_leaves
from askew.engine.build import build_task
from askew.engine.choice import ENGINES
from askew.engine.sample import sample
from askew.engine.sequential import Sequential
from askew.runs.sweep import grid, sweep

# Compiling a network for a CPU takes 10 to 60 s: the long run compiles all, CI this one, which has the layers that are
# hard to compile, and a memory. Pieces in front of the optimiser, a state that starts at 1 and an MLP are compiled in
# tests/strangers.
COMPILED = ["kept momentum, batchnorm, dropout, an LSTM"]


def task_of(name):
    recipe, model = RECIPES[name]
    return build_task(recipe, model=model() if model else None)


def run(make, name):
    """The models and records of a whole run, and what its clients remember at the end."""
    with torch.random.fork_rng(devices=[]):
        task, records = task_of(name), []
        simulation = rounds(make, task, 0)
        while not simulation.finished:
            records.append(simulation.advance())
    models = {number: entry.model for number, entry in simulation.models.items()}
    return models, records, remembered(simulation)


def remembered(simulation):
    """Model -> what each client remembers of it."""
    everyone = range(simulation.task.num_clients)
    return ({number: simulation.memory.rows(number, everyone) for number in simulation.models}
            if simulation.memory else {})


@cache
def reference(name):
    return run(Sequential, name)


@pytest.mark.parametrize(("name", "form"), cases(RECIPES, in_turns, compiled=COMPILED))
def test_every_form_equals_the_sequential_engine(name, form):
    """Three rounds: weights within a relative difference of 1e-4, and what is recorded of them."""
    models, records, memories = reference(name)
    got, recorded, kept = run(FORMS[form], name)
    assert set(got) == set(models)
    assert_same_memories(kept, memories)
    for number, theirs in models.items():
        mine = got[number]
        assert (mine.params.keys(), mine.buffers.keys()) == (theirs.params.keys(), theirs.buffers.keys())
        for key, v in theirs.params.items():
            assert float((mine.params[key] - v).norm()) <= 1e-4 * float(v.norm()), (number, key)
        for key, v in theirs.buffers.items():
            torch.testing.assert_close(mine.buffers[key], v, atol=1e-4, rtol=1e-4)
    for mine, theirs in zip(recorded, records, strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-3)
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert mine["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.01)
        for exact in ("round", "clients", "bytes_up", "bytes_down"):
            assert mine[exact] == theirs[exact]


def assert_same_memories(got, expected):
    """Tensor by tensor; one of rounding alone (a bias before BatchNorm) may differ by 2e-5 of what is remembered."""
    assert got.keys() == expected.keys()
    for number, memory in expected.items():
        mine, theirs = tree_leaves(got[number]), tree_leaves(memory)
        assert [v.dtype for v in mine] == [v.dtype for v in theirs]
        whole = float(torch.cat([v.double().flatten() for v in theirs]).norm())
        for one, other in zip(mine, theirs, strict=True):
            assert float((one - other).double().norm()) <= 1e-3 * float(other.double().norm()) + 2e-5 * whole, number


@pytest.mark.parametrize("name", REMEMBERING)
def test_clients_that_have_trained_remember_something_else_than_the_others(name):
    """Otherwise the tables compare nothing."""
    simulation = rounds(Sequential, task_of(name), 1)
    trained = sample(simulation.task, 0)
    others = set(range(simulation.task.num_clients)) - set(trained)
    first = simulation.memory.rows(10**6, [0])  # of a model that nobody knows
    for number in [n for n in simulation.models if n == 0]:
        for clients, same in ((trained, "memory that stays as it is" in name), (sorted(others), True)):
            for client in clients:
                now = simulation.memory.rows(number, [client])
                assert all(torch.equal(a, b) for a, b in zip(tree_leaves(now), tree_leaves(first), strict=True)) == same


# One by one, runs are resumed in tests/runs; here in the long run, too.
@pytest.mark.parametrize("form", [*(["sequential"] if LONG else []), "eager, two at a time",
                                  pytest.param("graphed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*REMEMBERING, "what the server sends besides", "more in the message"])
def test_a_run_that_is_resumed_is_the_run_that_was_not_broken(name, form):
    """Bit for bit: another simulation that is given the state, by way of a file, goes on as the first would have."""
    make = {**FORMS, "sequential": Sequential}[form]
    with torch.random.fork_rng(devices=[]):
        first = rounds(make, task_of(name), 2)
        file = io.BytesIO()
        torch.save(first.state, file)
        file.seek(0)
        second = rounds(make, task_of(name), 0)
        second.state = torch.load(file, weights_only=True)
        while not first.finished:
            assert first.advance() == second.advance()
    for number, entry in first.models.items():
        for key, v in entry.model.params.items():
            assert torch.equal(second.models[number].model.params[key], v)
    mine, theirs = tree_leaves(remembered(second)), tree_leaves(remembered(first))
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("name", ["kept momentum", "control variates", "a layer that stays at home"])
def test_a_round_that_fails_at_the_very_end_leaves_memories_as_they_were(name, monkeypatch):
    """Evaluation comes last; a run that is broken off there goes on as if the round had never begun."""
    with torch.random.fork_rng(devices=[]):
        unbroken, broken = rounds(Sequential, task_of(name), 1), rounds(Sequential, task_of(name), 1)
        with monkeypatch.context() as patch:
            patch.setattr(broken, "evaluate", lambda row: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                broken.advance()
        assert [unbroken.advance() for _ in range(2)] == [broken.advance() for _ in range(2)]


def test_runs_that_train_together_have_memories_of_their_own():
    """Three rates in one computation equal three runs: momentum is kept, a control variate, a client's weights."""
    for name in ("kept momentum", "control variates", "a layer that stays at home"):
        recipes = grid(RECIPES[name][0].replace(rounds=3), {"sgd.lr": [0.02, 0.05, 0.08]})
        together = sweep(recipes, engine="vectorised")
        alone = [askew.run(recipe, engine="sequential") for recipe in recipes]
        for one, other in zip(together, alone, strict=True):
            for key, v in other.model.items():
                torch.testing.assert_close(one.model[key], v, atol=1e-5, rtol=1e-4)


def test_the_mean_of_everything_is_the_mean():
    """The rows of `Everything` and the weights of the cohort are in one order, whatever the engine."""
    base = RECIPES["mean of all updates that are kept"][0]
    for engine in ("sequential", "vectorised"):
        kept = askew.run(base, engine=engine)
        streamed = askew.run(base.replace(server=["mean()", "momentum(0.5)"]), engine=engine)
        for key, v in streamed.model.items():
            torch.testing.assert_close(kept.model[key], v, atol=1e-6, rtol=1e-5)


def test_every_engine_has_a_form():
    """An engine that joins the list must join the table of forms."""
    made = {make(task_of("unequal clients, several epochs")).name for make in FORMS.values()}
    assert made | {"sequential"} == set(ENGINES)
