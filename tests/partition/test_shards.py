"""Sorted shards."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.partition import shards


def test_mcmahan_two_hundred_shards() -> None:
    population = shards(Source(np.arange(60_000) % 10, 10), clients=100, shards_per_client=2)
    assert (population.sizes == 600).all()
    assert set(population.counts.ravel().tolist()) == {0, 300, 600}
    assert ((population.counts > 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("per_client", [1, 2])
def test_zhao_non_iid_on_the_labels_of_cifar10(cifar10: Source, per_client: int) -> None:
    population = shards(cifar10, clients=10, shards_per_client=per_client, distinct=True)
    assert (population.sizes == 5000).all()
    assert ((population.counts > 0).sum(axis=1) == per_client).all()


def test_distinct_shards_are_spread_over_all_pairs_of_classes() -> None:
    population = shards(Source(np.arange(20_000) % 10, 10), clients=5000, shards_per_client=2, distinct=True, seed=2)
    held = population.counts > 0
    assert (held.sum(axis=1) == 2).all()
    first, second = held.argmax(axis=1), 9 - held[:, ::-1].argmax(axis=1)
    pairs = np.bincount(first * 10 + second, minlength=100)[[i * 10 + j for i in range(10) for j in range(i + 1, 10)]]
    expected = 5000 / 45
    statistic = ((pairs - expected) ** 2 / expected).sum()
    assert statistic < 90  # chi-square with 44 degrees of freedom: about 1 in 20,000 draws


def test_without_distinct_two_shards_may_come_from_one_class() -> None:
    population = shards(Source(np.arange(20_000) % 10, 10), clients=1000, shards_per_client=2)
    alone = ((population.counts > 0).sum(axis=1) == 1).mean()
    assert alone == pytest.approx(0.1, abs=0.04)


def test_classes_that_do_not_divide_make_shards_that_straddle() -> None:
    population = shards(Source(np.array([0] * 5 + [1] * 3), 2), clients=2, shards_per_client=1)
    assert sorted(population.counts.tolist()) == [[1, 3], [4, 0]]
