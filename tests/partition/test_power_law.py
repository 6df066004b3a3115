"""Unbalanced sizes."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.partition import power_law
from askew.partition.power_law import sizes_by_rank


def test_sizes_follow_the_law_and_sum_to_the_whole() -> None:
    assert sizes_by_rank(110, 3, 1.0, 1).tolist() == [60, 30, 20]  # 60 / rank
    assert sizes_by_rank(100, 4, 0.0, 1).tolist() == [25, 25, 25, 25]
    sizes = sizes_by_rank(60_000, 100, 1.0, 1)
    assert sizes.sum() == 60_000
    slope = np.polyfit(np.log(np.arange(1, 101)), np.log(sizes), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.01)
    assert sizes[:10].sum() / 60_000 == pytest.approx(0.56, abs=0.01)  # a tenth of the clients holds most


def test_nobody_falls_below_the_minimum() -> None:
    sizes = sizes_by_rank(1000, 100, 2.0, 5)
    assert sizes.min() == 5
    assert sizes.sum() == 1000


def test_iid_examples_in_unequal_numbers() -> None:
    population = power_law(Source(np.arange(60_000) % 10, 10), clients=100)
    assert population.sizes.sum() == 60_000
    largest = population.counts[population.sizes.argmax()]
    assert largest.max() / largest.min() < 1.2  # all classes alike


def test_who_is_large_is_random() -> None:
    source = Source(np.arange(1000) % 10, 10)
    assert len({int(power_law(source, clients=10, seed=seed).sizes.argmax()) for seed in range(30)}) > 5


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_two_classes_each_on_the_labels_of_mnist(mnist: Source, exponent: float) -> None:
    population = power_law(mnist, clients=100, exponent=exponent, classes=2)
    assert ((population.counts > 0).sum(axis=1) == 2).all()
    sizes = np.sort(population.sizes)[::-1]
    slope = np.polyfit(np.log(np.arange(1, 51)), np.log(sizes[:50]), 1)[0]
    assert slope == pytest.approx(-exponent, abs=0.03)
    if exponent <= 1.0:
        assert sizes.sum() > 0.9 * 60_000


def test_both_classes_of_a_client_are_equally_large() -> None:
    counts = power_law(Source(np.arange(10_000) % 10, 10), clients=30, classes=2).counts
    pairs = np.sort(counts, axis=1)[:, -2:]
    assert (np.diff(pairs, axis=1) <= 1).all()
