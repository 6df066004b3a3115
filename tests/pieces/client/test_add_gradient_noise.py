"""Noise on the gradients: its moments, and whose it is."""

import numpy as np
import pytest
import torch
from scipy import stats

import askew
from askew.core import rng
from askew.core.client_piece import ClientContext
from askew.pieces.client import add_gradient_noise


def noise_of(key, std=0.5, size=20_000):
    zero = {"a": torch.zeros(size // 2), "b": torch.zeros(size // 2)}
    u, _ = add_gradient_noise(std).update(zero, (), ClientContext(zero, zero, 0, make_key=lambda: key))
    return u


def test_the_moments_are_those_of_a_normal_distribution():
    z = torch.cat(list(noise_of(rng.key(1, "client")).values())).numpy()
    assert abs(z.mean()) < 4 * 0.5 / len(z) ** 0.5
    assert z.std() == pytest.approx(0.5, rel=0.03)
    assert stats.kstest(z / 0.5, "norm").pvalue > 0.01


def test_it_is_added_to_the_gradient(client, act):
    alone = act(add_gradient_noise(0.1), (0, 0), client(w=(0, 0)))
    assert act(add_gradient_noise(0.1), (5, -3), client(w=(0, 0))) == pytest.approx([alone[0] + 5, alone[1] - 3])


def test_tensors_steps_and_clients_have_streams_of_their_own():
    first = noise_of(rng.key(1, "client"))
    assert abs(np.corrcoef(first["a"], first["b"])[0, 1]) < 0.05
    assert torch.equal(first["a"], noise_of(rng.key(1, "client"))["a"])
    assert not torch.equal(first["a"], noise_of(rng.key(2, "client"))["a"])


def test_each_step_of_a_run_draws_fresh_noise_and_leaves_the_batches_alone():
    """With a rate so small that the model does not matter, two clients' noise differs and two runs' is the same."""
    recipe = askew.Recipe(rounds=1, population="iid(clients=2)", client=["add_gradient_noise(1.0)", "sgd(lr=1e-3)"])
    first, second = askew.run(recipe).model, askew.run(recipe).model
    assert all(torch.equal(first[name], second[name]) for name in first)
    # The losses before the first step depend on the batches alone: the noise took no numbers from the shuffle.
    quiet = recipe.replace(client=["sgd(lr=0.0)"]), recipe.replace(client=["add_gradient_noise(1.0)", "sgd(lr=0.0)"])
    assert askew.run(quiet[0]).records[0]["train_loss"] == askew.run(quiet[1]).records[0]["train_loss"]


def test_the_noise_of_a_whole_client_has_the_size_that_many_steps_give():
    """n independent steps of std s at rate r move each weight by r s sqrt(n): 72 steps are told from 1 repeated."""
    recipe = askew.Recipe(rounds=1, population="iid(clients=2)", model="mlp(hidden=[])", batch_size=10)
    plain = askew.run(recipe.replace(client=["sgd(lr=1e-4)"], fraction=0.5)).model
    noisy = askew.run(recipe.replace(client=["add_gradient_noise(100.0)", "sgd(lr=1e-4)"], fraction=0.5)).model
    moved = torch.cat([(noisy[name] - plain[name]).flatten() for name in plain])
    assert float(moved.std()) == pytest.approx(1e-4 * 100.0 * 72**0.5, rel=0.1)


def test_a_negative_std_is_refused():
    with pytest.raises(askew.AskewError, match="add_gradient_noise: std must not be negative, got -1"):
        add_gradient_noise(-1.0)
