"""FedCD over arrays of clients and models against the plain rules, device by device: every number to the last bit."""

import os

import numpy as np
import pytest
import torch
from fedcd_by_dicts import accuracies_for, as_dicts, by_dicts, kept_by

import askew
from askew.core import pool as core_pool
from askew.core import rng
from askew.engine.build import build_task
from askew.engine.evaluate import example_scores, means_of_parts
from askew.engine.sequential import Sequential
from askew.pieces.methods import fedcd
from askew.pieces.pool import clone_and_delete
from askew.rounds.simulation import Simulation

HISTORIES = 2_000 if os.environ.get("ASKEW_LONG") == "1" else 60


def settings(random):
    """Few and many milestones, windows of one and beyond the eight that numpy sums in another order, every rule."""
    rounds = int(random.integers(1, 14))
    milestones = random.choice(np.arange(1, 15), int(random.integers(0, 6)), replace=False).tolist()
    return rounds, {"milestones": milestones, "window": int(random.choice([1, 2, 3, 8, 9, 20])),
                    "score_noise": float(random.choice([0.0, 0.01, 0.5])), "late_round": int(random.integers(0, 15)),
                    "late_score": float(random.choice([0.0, 0.3, 0.5])),
                    "keep_at_least": int(random.choice([1, 2, 3, 9, 40]))}


def accuracies(random, keeps):
    """Of whatever kind a round may bring: anything, ties, zeros, all the same, negative scores, NaN (no examples)."""
    kind = random.choice(["any", "ties", "zeros", "same", "negative", "nan"], p=[0.4, 0.25, 0.1, 0.1, 0.1, 0.05])
    draw = {"any": random.random, "ties": lambda: random.integers(0, 4) / 3, "zeros": lambda: 0.0, "same": lambda: 0.7,
            "negative": lambda: random.normal(), "nan": lambda: random.choice([np.nan, 0.5])}[kind]
    return [{m: float(draw()) for m in mine} for mine in keeps]


def words(value):
    """To the last bit, and with NaN equal to itself."""
    return repr(value)


@pytest.mark.parametrize("part", range(4))
def test_random_histories(part):
    for case in range(part, HISTORIES, 4):
        random = np.random.default_rng(case)
        rounds, options = settings(random)
        clients = int(random.choice([1, 2, 5, 30]))
        groups = np.sort(random.integers(0, 3, clients))
        plain, pool = by_dicts(**options), clone_and_delete(**options)
        wanted, state = plain.init(clients), pool.init(clients)
        assert words(as_dicts(state)) == words(wanted)
        for round in range(1, rounds + 1):
            seen, key = accuracies(random, plain.keeps(wanted)), rng.key(case, "pool", round)
            given = accuracies_for(pool, state, seen)
            wanted, expected = plain.after_round(wanted, seen, round, key)
            state, changes = pool.after_round(state, given, round, key)
            where = f"history {case}, round {round}, {options}"
            assert words(as_dicts(state)) == words(wanted), where
            assert (changes.clones, changes.deleted) == (expected.clones, expected.deleted), where
            assert kept_by(pool, state) == plain.keeps(wanted), where
            assert list(pool.choice(state)) == plain.choice(wanted), where
            some = sorted(random.choice(clients, int(random.integers(1, clients + 1)), replace=False).tolist())
            assert pool.trainers(state, some) == plain.trainers(wanted, some), where
            for model, who in plain.trainers(wanted, some).items():
                assert list(pool.scores(state, model, who)) == plain.scores(wanted, model, who), where
            assert words(pool.metrics(state, groups)) == words(plain.metrics(wanted, groups.tolist())), where
            assert state["models"] == sorted({m for mine in wanted["scores"] for m in mine}), where


def test_a_state_that_is_given_is_left_alone():
    pool = clone_and_delete(milestones=[1, 2], keep_at_least=1)
    state = pool.init(5)
    for round in (1, 2, 3):
        before = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in state.items()}
        new, _ = pool.after_round(state, np.full(pool.keeps(state)[1].shape, 0.5), round, rng.key(0, "pool", round))
        assert words(as_dicts(state)) == words(as_dicts(before))
        state = new


@pytest.mark.parametrize("case", range(12))
def test_a_stored_state_of_dicts_goes_on_as_arrays(case):
    """What older checkpoints hold, after any number of rounds: converted, it is what arrays would have come to."""
    random = np.random.default_rng(1_000 + case)
    _, options = settings(random)
    plain, pool = by_dicts(**options), clone_and_delete(**options)
    wanted, state = plain.init(6), pool.init(6)
    for round in range(1, case + 1):
        seen, key = accuracies(random, plain.keeps(wanted)), rng.key(case, "pool", round)
        given = accuracies_for(pool, state, seen)
        wanted, _ = plain.after_round(wanted, seen, round, key)
        state, _ = pool.after_round(state, given, round, key)
    got = pool.restore(wanted)
    assert words(as_dicts(got)) == words(as_dicts(state))
    assert {name: (v.dtype, v.shape) for name, v in got.items() if isinstance(v, torch.Tensor)} == {
        name: (v.dtype, v.shape) for name, v in state.items() if isinstance(v, torch.Tensor)}
    seen, key = accuracies(random, plain.keeps(wanted)), rng.key(case, "pool", 99)
    on, _ = pool.after_round(got, accuracies_for(pool, got, seen), 99, key)
    wanted, _ = plain.after_round(wanted, seen, 99, key)
    assert words(as_dicts(on)) == words(wanted)


RECIPE = fedcd(askew.Recipe(rounds=5, population="hierarchical(clients=10)", fraction=0.5, seed=3), milestones=[1, 3])


def test_an_older_checkpoint_is_resumed():
    """A run whose pool state is written as dicts after two rounds, and one without a break."""
    task = build_task(RECIPE)
    whole = Simulation(task, Sequential(task))
    records = [whole.advance() for _ in range(5)]
    first = Simulation(task, Sequential(task))
    for _ in range(2):
        first.advance()
    rest = Simulation(task, Sequential(task))
    rest.state = {**first.state, "pool": as_dicts(first.state["pool"])}
    assert [rest.advance() for _ in range(3)] == records[2:]
    assert words(as_dicts(rest.pool_state)) == words(as_dicts(whole.pool_state))


def test_each_clients_validation_score_is_the_mean_of_its_own_examples():
    """For models that it keeps, to the last bit of a mean taken client by client; validation sets of unequal sizes."""
    recipe = RECIPE.replace(population="dirichlet(clients=8, alpha=0.3) + validation(0.3)")
    task = build_task(recipe)
    simulation = Simulation(task, Sequential(task))
    for _ in range(3):
        simulation.advance()
    numbers, kept = task.pool.keeps(simulation.pool_state)
    got, owned = simulation._validate(), task.population.validation
    assert len(numbers) > 1
    for at, number in enumerate(numbers):
        users = np.flatnonzero(kept[:, at])
        index = torch.from_numpy(np.concatenate([owned[client] for client in users]))
        examples = askew.Examples(task.data.train.x[index], task.data.train.y[index])
        each = example_scores(task, simulation.view(number), examples)
        parts = each.split([len(owned[client]) for client in users])
        assert got[users, at].tolist() == [float(part.mean()) for part in parts]
        assert (got[~kept[:, at], at] == 0).all()


@pytest.mark.parametrize("most", [3, 20, 700])
def test_means_of_parts_are_those_of_each_part_alone(most):
    random = np.random.default_rng(most)
    sizes = random.permutation([0, *random.integers(0, most, 200)])
    values = torch.from_numpy(random.normal(size=int(sizes.sum()))).float()
    alone = [float(part.mean()) for part in values.split(sizes.tolist())]
    assert words(means_of_parts(values, sizes).tolist()) == words(alone)
    assert "nan" in words(alone)


def test_records_name_each_clients_choice_up_to_a_bound():
    bound = core_pool.MANY_CLIENTS
    pool = clone_and_delete()
    for clients, named in ((bound, True), (bound + 1, False)):
        state, _ = pool.after_round(pool.init(clients), np.full((clients, 1), 0.5), 1, rng.key(0, "pool"))
        assert ("choice" in pool.metrics(state, None)) is named
    assert pool.metrics(state, np.zeros(bound + 1, np.int64))["group_choice"] == [0]


def test_a_state_does_not_grow_with_rounds():
    """Models come and go; what is kept of them is what lives, and windows end."""
    pool = clone_and_delete(milestones=list(range(1, 40)), window=2, keep_at_least=2, late_round=100)
    state, sizes, random = pool.init(20), [], np.random.default_rng(0)
    for round in range(1, 60):
        state, _ = pool.after_round(state, random.random(pool.keeps(state)[1].shape), round, rng.key(0, "pool", round))
        assert state["history"].shape == (20, len(state["models"]), 2)
        sizes.append(len(state["models"]))
    assert sizes[-1] == sizes[-10] <= 40
