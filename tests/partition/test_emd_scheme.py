"""zhao2018's distances are hit, on even, uneven and small data."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core import skew
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.partition import emd
from askew.partition.draw import draw

TABLE_2 = (0.0, 0.36, 0.72, 1.08, 1.44, 1.62, 1.764, 1.8)


def check(source: Source, asked: float, seed: int) -> None:
    population = emd(source, clients=10, emd=asked, seed=seed)
    obtained = skew.emd(population.counts, population.class_totals)
    assert np.abs(obtained - asked).max() <= 1e-3
    assert np.ptp(population.counts.sum(axis=0)) == 0, "the pool is even"
    assert np.ptp(population.sizes) == 0
    for client in range(1, 10):
        assert np.array_equal(population.counts[client], np.roll(population.counts[0], client))
    smallest = np.bincount(source.labels).min()
    assert population.sizes[0] > 0.9 * smallest, "hardly more is left out than the smallest class dictates"


@pytest.mark.parametrize("asked", TABLE_2)
@pytest.mark.parametrize("seed", range(5))
def test_the_eight_distances_of_table_2_with_five_distributions_each(asked: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    check(Source(np.repeat(np.arange(10), random.integers(5000, 7000, 10)), 10), asked, seed)


@pytest.mark.parametrize("asked", TABLE_2)
def test_on_the_labels_of_mnist(mnist: Source, asked: float) -> None:
    check(mnist, asked, seed=0)


@pytest.mark.parametrize("asked", TABLE_2)
def test_on_the_labels_of_cifar10(cifar10: Source, asked: float) -> None:
    check(cifar10, asked, seed=0)


def test_five_seeds_give_five_distributions() -> None:
    source = Source(np.arange(50_000) % 10, 10)
    rows = {tuple(sorted(emd(source, clients=10, emd=1.08, seed=s).counts[0].tolist())) for s in range(5)}
    assert len(rows) == 5


def test_the_largest_distance_is_one_class_a_client() -> None:
    counts = emd(Source(np.arange(1000) % 10, 10), clients=20, emd=1.8).counts
    assert ((counts > 0).sum(axis=1) == 1).all()
    assert (counts.sum(axis=0) == 100).all()


def test_small_data_hit_what_they_can_and_otherwise_say_what_they_can() -> None:
    source = Source(np.arange(200) % 10, 10)
    assert skew.mean_emd(emd(source, clients=10, emd=1.3).counts) == pytest.approx(1.3)
    with pytest.raises(AskewError, match=r"emd=1\.234 cannot be hit .* nearest is emd=1\.2: ask for it"):
        emd(source, clients=10, emd=1.234)
    assert skew.mean_emd(emd(source, clients=10, emd=1.2).counts) == pytest.approx(1.2)  # the remedy works


def test_a_balanced_hold_out_leaves_the_distance_as_it_is() -> None:
    population = draw("emd(clients=10, emd=1.44) + hold_out(0.2)", Source(np.arange(50_000) % 10, 10))
    assert skew.mean_emd(population.counts, population.class_totals) == pytest.approx(1.44, abs=1e-3)
