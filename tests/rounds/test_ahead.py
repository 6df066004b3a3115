"""Handing the next round over before this one is checked changes no result, and leaves no trace if this one fails."""

from functools import partialmethod

import pytest
import torch

import askew
from askew.engine.build import build_task
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import fedcd, fednnnn
from askew.rounds.simulation import Simulation
from askew.runs.sweep import grid, sweep

BASE = askew.Recipe(population="dirichlet_per_class(clients=5, alpha=0.5)", batch_size=48, rounds=4, fraction=0.6,
                    evaluate_every=2)


def made(recipe, ahead):
    task = build_task(recipe)
    return Simulation(task, Vectorised(task), ahead=ahead)


def advance_to_the_end(simulation):
    while not simulation.finished:
        simulation.advance()


@pytest.mark.parametrize("recipe",
                         [BASE, fednnnn(BASE), fedcd(BASE, milestones=[1]), BASE.replace(probes=["update_norms()"])],
                         ids=["fedavg", "fednnnn", "fedcd", "probed"])
def test_the_same_records_and_the_same_state_after_every_round(recipe):
    one, other = made(recipe, ahead=True), made(recipe, ahead=False)
    while not one.finished:
        assert one.advance() == other.advance()
        assert one.round == other.round
        for number, entry in one.models.items():
            assert all(torch.equal(v, other.models[number].model.params[name])
                       for name, v in entry.model.params.items())
    assert other.finished


def test_the_next_round_is_begun_only_where_it_is_known():
    simulation = made(BASE.replace(rounds=2), ahead=True)
    simulation.advance()
    assert simulation._next.gathering.round == 1
    simulation.advance()
    assert simulation._next is None  # that was the last
    scored = made(fedcd(BASE, milestones=[1]), ahead=True)
    scored.advance()
    assert scored._next is None  # who trains what depends on this round's scores


def test_a_state_that_is_loaded_replaces_what_was_begun():
    simulation, kept = made(BASE, ahead=True), made(BASE, ahead=True)
    kept.advance()
    first = kept.state
    records = [kept.advance(), kept.advance()]
    simulation.advance()
    simulation.advance()
    simulation.state = first
    assert [simulation.advance(), simulation.advance()] == records


def test_a_round_that_diverges_leaves_the_one_before_it():
    recipe = askew.Recipe(rounds=5, server=["mean()", "scale(1e15)"])
    one, other = made(recipe, ahead=True), made(recipe, ahead=False)
    messages = []
    for simulation in (one, other):
        with pytest.raises(askew.DivergedError) as error:
            advance_to_the_end(simulation)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert one.round == other.round >= 1
    assert all(torch.equal(v, other.view().params[name]) for name, v in one.view().params.items())


def test_a_sweep_of_which_some_diverge_and_some_end_earlier(monkeypatch):
    recipes = [*grid(BASE, {"sgd.lr": [0.1, 1e6]}), BASE.replace(rounds=2), BASE.replace(rounds=3, seed=1)]
    plain = sweep(recipes, engine="vectorised")
    monkeypatch.setattr(Simulation, "__init__", partialmethod(Simulation.__init__, ahead=True))
    ahead = sweep(recipes, engine="vectorised")
    for one, other in zip(ahead, plain, strict=True):
        assert one.diverged == other.diverged
        assert [r["round"] for r in one.records] == [r["round"] for r in other.records]
        assert one.records == other.records
    assert [len(o.records) for o in ahead] == [4, 0, 2, 3]
