"""Votes by hand, and what theory says of conflicts on the digits."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import askew
from askew.core.cohort import Cohort
from askew.core.errors import AskewError
from askew.core.probe import Round
from askew.core.statistic import Senders
from askew.core.tensors import ModelState
from askew.data import digits
from askew.pieces.probe import hypothesis_conflicts


def measure(pencil, probe, models):
    gathered = None
    for model in models:
        gathered = probe.observe(pencil.ctx, pencil.model(model), gathered)
    values, _ = probe.read(pencil.ctx, pencil.round([(0, 0, 0, 0)] * len(models)), None, gathered)
    return values


def test_three_models_by_hand(pencil):
    """Inputs (3, 0), (0, 1), (1, 1), (2, 5). The convolution (1, -1) gives 3, -1, 0, -3; (1, 1) gives 3, 1, 2, 7.

    With fc = (1, -1) class a wins where that is not negative: a b a b and a a a a; with (-1, 1) after (1, 1): b b b b.
    """
    first, second, third = (1, -1, 1, -1), (1, 1, 1, -1), (1, 1, -1, 1)
    probe = hypothesis_conflicts()
    assert measure(pencil, probe, [first, second]) == {"conflicts_any": 0.5, "conflicts_pair": 0.5}
    assert measure(pencil, probe, [second, third]) == {"conflicts_any": 1.0, "conflicts_pair": 1.0}
    # Pairs differ on 2, 2 and 4 of 4 inputs.
    all_three = measure(pencil, probe, [first, second, third])
    assert all_three == pytest.approx({"conflicts_any": 1, "conflicts_pair": 2 / 3})
    assert measure(pencil, probe, [first, first, first]) == {"conflicts_any": 0.0, "conflicts_pair": 0.0}
    assert measure(pencil, probe, [first]) == {"conflicts_any": 0.0, "conflicts_pair": 0.0}


def round_of(count):
    """A round of which the probe reads only how many clients it had."""
    cohort = Cohort({"w": torch.zeros(1)})
    ones = torch.ones(count)
    cohort.add({"update": {"w": torch.zeros(count, 1)}}, Senders(range(count), *[ones] * 4), ones)
    return Round(1, ModelState({}), ModelState({}), cohort, cohort.clients)


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 2**31))
def test_votes_give_the_mean_over_all_pairs(clients, inputs, seed):
    said = np.random.Generator(np.random.Philox(seed)).integers(0, 3, (clients, inputs))
    gathered = {"votes": torch.nn.functional.one_hot(torch.from_numpy(said), 3).sum(dim=0)}
    values, _ = hypothesis_conflicts().read(None, round_of(clients), None, gathered)
    pairs = [(a != b).mean() for a, b in itertools.combinations(said, 2)]
    assert values["conflicts_pair"] == pytest.approx(np.mean(pairs))
    assert values["conflicts_any"] == pytest.approx((said != said[0]).any(axis=0).mean())


def test_the_inputs_are_the_first_of_one_fixed_order(pencil):
    model = pencil.model([0, 0, 0, 0])
    asked = {n: hypothesis_conflicts(n).observe(pencil.ctx, model, None)["x"] for n in (1, 3, 500)}
    assert [len(x) for x in asked.values()] == [1, 3, 4]  # all where there are fewer
    assert torch.equal(asked[1], asked[3][:1])
    assert torch.equal(asked[3], asked[500][:3])
    assert sorted(asked[500].flatten(1).tolist()) == sorted(pencil.ctx.data.test.x.flatten(1).tolist())


def test_what_is_gathered_does_not_grow_with_the_clients(pencil):
    probe, gathered = hypothesis_conflicts(), None
    for _ in range(20):
        gathered = probe.observe(pencil.ctx, pencil.model((1, 1, 1, 1)), gathered)
    assert gathered["votes"].shape == (4, 2)
    assert gathered["votes"].sum().item() == 4 * 20


def test_inputs_must_be_positive():
    with pytest.raises(AskewError, match="inputs must be at least 1, got 0"):
        hypothesis_conflicts(0)


def conflicts(recipe, population=None):
    records = askew.run(recipe.replace(probes=["hypothesis_conflicts(inputs=200)"]), population=population).records
    assert all(0 <= record["conflicts_pair"] <= record["conflicts_any"] <= 1 for record in records)
    return records


def test_clients_with_the_same_data_do_not_conflict():
    y = digits().train.y.numpy()
    same = askew.Population.of(askew.Ownership.of([np.arange(len(y))] * 3), y, 10)
    assert all(record["conflicts_any"] == 0 for record in conflicts(askew.Recipe(rounds=3, batch_size=0), same))


def test_clients_of_one_class_see_it_everywhere():
    one_class = askew.Recipe(population="classes_per_client(clients=10, classes=1)", epochs=5, rounds=2)
    assert all(record["conflicts_pair"] > 0.95 for record in conflicts(one_class))
    alike = conflicts(one_class.replace(population="iid(clients=10)"))
    assert all(record["conflicts_pair"] < 0.7 for record in alike)


def test_it_uses_each_clients_own_buffers(pencil):
    """Two models with the same weights and other BatchNorm statistics can disagree."""
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(2, affine=False))
    ctx = replace(pencil.ctx, module=module, predict=lambda model, x: torch.func.functional_call(
        module.eval(), {**model.params, **model.buffers}, (x,)).argmax(dim=1))
    probe, gathered = hypothesis_conflicts(), None
    for centre in ((0.0, 0.0), (10.0, 0.0)):  # minus 10, the first coordinate never wins
        buffers = {"1.running_mean": torch.tensor(centre), "1.running_var": torch.ones(2)}
        gathered = probe.observe(ctx, ModelState({}, buffers), gathered)
    values, _ = probe.read(ctx, round_of(2), None, gathered)
    assert values["conflicts_any"] == 0.5  # (3, 0) and the tie (1, 1), which goes to the first
