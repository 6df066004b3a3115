"""hsu2019's populations: the shares are Dirichlet, the limits are what the paper says, classes run out gracefully."""

from __future__ import annotations

import math

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.partition.deal import generator
from askew.partition.dirichlet import dirichlet, log_shares


def softmax(log_q: np.ndarray) -> np.ndarray:
    q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 10.0, 100.0])
def test_shares_have_the_moments_of_the_dirichlet_distribution(alpha: float) -> None:
    # Dir(alpha p) with sum(p) = 1: mean p, variance p (1 - p) / (alpha + 1), covariance -p_i p_j / (alpha + 1).
    p = np.array([0.1, 0.2, 0.3, 0.4])
    number = 200_000
    q = softmax(log_shares(number, alpha, p, generator(0, "test")))
    variance = p * (1 - p) / (alpha + 1)
    assert np.abs(q.mean(axis=0) - p).max() < 5 * math.sqrt(variance.max() / number)
    covariance = np.cov(q.T)
    assert np.diag(covariance) == pytest.approx(variance, rel=0.03)
    assert covariance[0, 3] == pytest.approx(-p[0] * p[3] / (alpha + 1), rel=0.06)


def test_counts_of_a_population_have_the_moments_too() -> None:
    # 2,000 clients of 100 examples take a fifth of the data, so no class runs out; rounding adds less than 1/100.
    source = Source(np.arange(1_000_000) % 10, 10)
    population = dirichlet(source, clients=2000, alpha=2.0, examples_per_client=100, seed=3)
    assert (population.sizes == 100).all()
    shares = population.counts / 100
    variance = 0.1 * 0.9 / 3.0
    assert shares.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=4.5 * math.sqrt(variance / 2000))
    assert shares.var(axis=0) == pytest.approx(np.full(10, variance), rel=0.2)
    assert shares.var() == pytest.approx(variance, rel=0.05)  # over all classes together


def test_dividing_all_data_keeps_the_mean_exactly_and_the_spread_nearly() -> None:
    source = Source(np.arange(100_000) % 10, 10)
    population = dirichlet(source, clients=1000, alpha=1.0, seed=1)
    shares = population.counts / 100
    assert shares.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=1e-12)  # every example is used
    assert shares.var() == pytest.approx(0.1 * 0.9 / 2.0, rel=0.06)  # the last clients take what is left


def test_alpha_infinity_gives_every_client_the_prior() -> None:
    population = dirichlet(Source(np.arange(5000) % 10, 10), clients=10, alpha=math.inf)
    assert (population.counts == 50).all()


def test_alpha_zero_gives_one_class_a_client_chosen_at_random() -> None:
    source = Source(np.arange(50_000) % 10, 10)  # 100 clients of 500, as in the paper: classes divide evenly
    first, second = (dirichlet(source, clients=100, alpha=0.0, seed=seed).counts for seed in (0, 1))
    assert ((first > 0).sum(axis=1) == 1).all()
    assert (first.argmax(axis=1) != second.argmax(axis=1)).any()
    assert len(set(first.argmax(axis=1)[:30])) > 5  # at random, not in blocks


def test_one_class_is_chosen_with_the_probabilities_of_the_prior() -> None:
    p = np.array([0.5, 0.3, 0.2, 0.0])
    order = np.argsort(-log_shares(100_000, 0.0, p, generator(0, "test")), axis=1)
    assert np.bincount(order[:, 0], minlength=4) / 100_000 == pytest.approx(p, abs=0.006)
    # Next in line after class 0: proportional to p among those left.
    after_0 = order[order[:, 0] == 0, 1]
    assert (after_0 == 1).mean() == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("alpha", [1e-320, 1e-200, 1e-50, 1e-5])
def test_very_small_alpha_does_not_underflow(alpha: float) -> None:
    population = dirichlet(Source(np.arange(1000) % 10, 10), clients=10, alpha=alpha)
    assert ((population.counts > 0).sum(axis=1) == 1).all()


def test_a_class_that_runs_out_is_replaced_by_the_others_in_proportion() -> None:
    # One class has 4 examples, so nearly every client finds it empty and keeps its other shares.
    labels = np.concatenate([np.zeros(4), np.ones(498), np.full(498, 2)]).astype(np.int64)
    population = dirichlet(Source(labels, 3), clients=10, alpha=math.inf, prior="uniform")
    assert population.counts.sum(axis=0).tolist() == [4, 498, 498]
    assert (population.sizes == 100).all()
    without = population.counts[population.counts[:, 0] == 0]
    assert len(without) == 9
    assert np.abs(without[:, 1:] - 50).max() <= 2


def test_the_number_of_clients_computed_at_once_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    source = Source(np.arange(20_000) % 10, 10)
    whole = dirichlet(source, clients=1000, alpha=0.2, seed=5)
    monkeypatch.setattr(sys.modules["askew.partition.dirichlet"], "_BLOCK", 7)
    assert np.array_equal(dirichlet(source, clients=1000, alpha=0.2, seed=5).counts, whole.counts)
