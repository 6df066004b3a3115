"""The other Dirichlet partition, against Flower's and against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.partition.deal import generator
from askew.partition.dirichlet_per_class import dirichlet_per_class


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_shares_of_a_class_have_the_moments_of_the_dirichlet_distribution(alpha: float) -> None:
    # Symmetric over K clients: mean 1/K, variance (1/K) (1 - 1/K) / (K alpha + 1).
    clients, classes = 20, 400
    labels = np.arange(400_000) % classes
    shares = dirichlet_per_class(Source(labels, classes), clients=clients, alpha=alpha).counts / 1000
    assert shares.sum(axis=0) == pytest.approx(np.ones(classes))
    assert shares.var() == pytest.approx((1 / clients) * (1 - 1 / clients) / (clients * alpha + 1), rel=0.1)


def test_alpha_infinity_divides_every_class_evenly() -> None:
    assert (dirichlet_per_class(Source(np.arange(1000) % 10, 10), clients=5, alpha=math.inf).counts == 20).all()


def test_the_draw_is_repeated_until_nobody_has_too_little() -> None:
    def smallest(least: int) -> int:
        return min(int(dirichlet_per_class(Source(np.arange(2000) % 10, 10), clients=20, alpha=0.1, min_examples=least,
                                           seed=seed).sizes.min()) for seed in range(20))

    assert smallest(1) < 10  # else the next line would show nothing
    assert smallest(10) >= 10


def test_balance_stops_a_client_that_has_its_share() -> None:
    source = Source(np.arange(10_000) % 10, 10)
    free = dirichlet_per_class(source, clients=10, alpha=0.2, min_examples=1, seed=2).sizes
    balanced = dirichlet_per_class(source, clients=10, alpha=0.2, min_examples=1, balance=True, seed=2).sizes
    assert balanced.max() <= 1000 + 1000  # above the mean by at most the class that took it there
    assert balanced.std() < free.std()


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 50.0])
def test_the_same_draws_give_the_same_counts_as_flower(alpha: float, balance: bool) -> None:
    partitioners = pytest.importorskip("flwr_datasets.partitioner", reason="flwr-datasets is not installed")
    datasets = pytest.importorskip("datasets")
    labels = np.arange(3000) % 10  # in order of first appearance, as Flower numbers classes
    peer = partitioners.DirichletPartitioner(num_partitions=12, partition_by="label", alpha=alpha,
                                             min_partition_size=10, self_balancing=balance, shuffle=False)
    peer._rng = generator(4, "dirichlet_per_class")  # the same stream: then results must be equal, not only alike
    peer.dataset = datasets.Dataset.from_dict({"label": labels})
    expected = np.stack([np.bincount(peer.load_partition(k)["label"], minlength=10) for k in range(12)])
    ours = dirichlet_per_class(Source(labels, 10), clients=12, alpha=alpha, min_examples=10, balance=balance, seed=4)
    # Where balance gives the last client no share, Flower's cumulative sum may stop a rounding error short of the total
    # and hand that client one example after all.
    assert np.abs(ours.counts - expected).max() <= (1 if balance else 0)
    assert (ours.counts != expected).sum() <= 2
