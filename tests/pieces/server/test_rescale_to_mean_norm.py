"""Norm normalisation (fednnnn2020, eq. (8)-(9)) and the proposition it rests on."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import askew
from askew.core import rng
from askew.core.cohort import Cohort
from askew.core.server_piece import ServerContext
from askew.core.statistic import Senders
from askew.pieces.server import rescale_to_mean_norm


def two_tensors(rows, weights=(1.0, 1.0)):
    """The context of clients with tensors a (two numbers) and b (one)."""
    stacked = torch.tensor(rows, dtype=torch.float32)
    like = {"a": torch.zeros(2), "b": torch.zeros(1)}
    cohort = Cohort(like)
    ones = torch.ones(len(rows))
    cohort.add({"update": {"a": stacked[:, :2], "b": stacked[:, 2:]}}, Senders(range(len(rows)), *[ones] * 4),
               torch.tensor(weights))
    return ServerContext(like, 0, 2, rng.key(0, "server"), cohort, lambda params, epochs: params)


def rescaled(ctx, beta=1.0, per="model"):
    u = rescale_to_mean_norm(beta, per).update(ctx.cohort.mean, (), ctx)[0]
    return [*u["a"].tolist(), *u["b"].tolist()]


def test_over_the_whole_model_by_hand():
    """Updates (3, 4, 0) and (3, -4, 0): mean (3, 0, 0), N = 3, E = 5; beta 0.5 gives 0.5 * 5/3 * 3 = 2.5."""
    assert rescaled(two_tensors([(3, 4, 0), (3, -4, 0)]), beta=0.5) == pytest.approx([2.5, 0, 0])


def test_by_layer_by_hand():
    """Updates (3, 4, 2) and (3, -4, 2): layer a has N = 3, E = 5, layer b N = E = 2.

    By layer: a becomes (5, 0), b stays 2. Over the model: N = sqrt(9 + 4), E = sqrt(25 + 4), all by one factor.
    """
    ctx = two_tensors([(3, 4, 2), (3, -4, 2)])
    assert rescaled(ctx, per="layer") == pytest.approx([5, 0, 2])
    factor = (29 / 13) ** 0.5
    assert rescaled(ctx) == pytest.approx([3 * factor, 0, 2 * factor])


def test_weights_count_in_both_lengths():
    """Weights 3 and 1: mean (3, 2, 0), N = sqrt(13); E = 5."""
    factor = 5 / 13**0.5
    ctx = two_tensors([(3, 4, 0), (3, -4, 0)], weights=(3.0, 1.0))
    assert rescaled(ctx) == pytest.approx([3 * factor, 2 * factor, 0])


def test_it_acts_on_the_update_it_is_given():
    """Behind another piece the length of what arrives becomes beta E: here (0, 1, 0) with E = 5."""
    ctx = two_tensors([(3, 4, 0), (3, -4, 0)])
    u = {"a": torch.tensor([0.0, 1.0]), "b": torch.zeros(1)}
    assert rescale_to_mean_norm(2.0).update(u, (), ctx)[0]["a"].tolist() == pytest.approx([0, 10])


@pytest.mark.parametrize("per", ["model", "layer"])
@pytest.mark.parametrize(("rows", "weights"), [
    ([(3, 4, 1), (-3, -4, -1)], (1.0, 1.0)),
    ([(0, 0, 0), (0, 0, 0)], (1.0, 1.0)),
    ([(0.1, 0.7, 0.3), (0.2, -0.4, 0.5), (-0.3, -0.3, -0.8)], (1.0, 1.0, 1.0)),  # cancels but for rounding
    ([(0.7, 0.1, 0.3), (-0.1, -0.1 / 7, -0.3 / 7)], (10.0, 70.0)),
])
def test_a_mean_of_nothing_but_rounding_leaves_the_model_as_it_is(rows, weights, per):
    """However the clients arrive: a direction that is rounding error must not be blown up to the length of E."""
    assert rescaled(two_tensors(rows, weights), per=per) == [0, 0, 0]


rows = st.lists(st.tuples(*[st.floats(-100, 100, width=32)] * 3), min_size=1, max_size=6)


@settings(deadline=None)
@given(rows, st.lists(st.floats(0.125, 8, width=32), min_size=6, max_size=6), st.floats(0.125, 4))
def test_n_is_at_most_e_and_rescaling_keeps_the_direction_and_makes_the_length_beta_e(clients, weights, beta):
    ctx = two_tensors(clients, weights[: len(clients)])
    n, e = float(ctx.cohort.norm_of_mean()), float(ctx.cohort.mean_norm())
    assert n <= e * (1 + 1e-6) + 1e-30  # proposition 1
    assume(n > 1e-3 * e > 1e-6)
    before = torch.cat(list(ctx.cohort.mean.values()))
    after = torch.tensor(rescaled(ctx, beta))
    assert float(after.norm()) == pytest.approx(beta * e, rel=1e-4)
    assert float(torch.dot(before, after)) == pytest.approx(float(before.norm() * after.norm()), rel=1e-5)


@settings(deadline=None)
@given(st.tuples(*[st.floats(-10, 10, width=32)] * 3), st.lists(st.floats(0.125, 10, width=32), min_size=1, max_size=5))
def test_parallel_updates_have_n_equal_to_e(direction, lengths):
    assume(max(map(abs, direction)) > 1e-2)
    ctx = two_tensors([[length * d for d in direction] for length in lengths], [1.0] * len(lengths))
    assert float(ctx.cohort.norm_of_mean()) == pytest.approx(float(ctx.cohort.mean_norm()), rel=1e-5)
    assert rescaled(ctx) == pytest.approx(torch.cat(list(ctx.cohort.mean.values())).tolist(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_a_beta_that_is_not_positive_is_refused(beta):
    with pytest.raises(askew.AskewError, match="rescale_to_mean_norm: beta must be positive"):
        rescale_to_mean_norm(beta)
