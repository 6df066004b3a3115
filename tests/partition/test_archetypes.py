"""FedCD's devices: the distributions of sections 3.2 and 3.3, and sets that do not leak into each other."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.partition import hierarchical, hypergeometric
from askew.partition.hypergeometric import label_shares


def test_hierarchical_devices_as_in_the_paper(cifar10: Source) -> None:
    population = hierarchical(cifar10)
    assert population.num_clients == 30
    assert (population.sizes == 5000).all()
    assert population.groups is not None
    assert population.groups.tolist() == np.repeat(np.arange(10), 3).tolist()
    shares = population.counts / 5000
    own = shares[np.arange(30), population.groups]
    assert ((own >= 0.6) & (own <= 0.7)).all()
    assert own.std() > 0.01  # drawn anew for each device
    for device, archetype in enumerate(population.groups):
        mates = [c for c in range(5 * (archetype // 5), 5 * (archetype // 5) + 5) if c != archetype]
        assert shares[device, mates] == pytest.approx((1 - own[device]) / 4, abs=3e-4)
        assert shares[device].sum() == pytest.approx(own[device] + shares[device, mates].sum())


@pytest.mark.parametrize("scheme", [hierarchical, hypergeometric])
def test_no_device_validates_on_what_any_device_trains_on(scheme: object) -> None:
    source = Source(np.arange(5000) % 10, 10, np.arange(1000) % 10)
    population = scheme(source)  # type: ignore[operator]
    assert population.validation is not None
    assert population.test is not None
    assert not set(population.train.indices.tolist()) & set(population.validation.indices.tolist())
    assert len(np.unique(population.train.indices)) <= 4000
    assert len(np.unique(population.validation.indices)) <= 1000
    for device in range(30):
        for part, labels in ((population.validation, source.labels), (population.test, source.test_labels)):
            assert len(np.unique(part[device])) == len(part[device]) > 0
            drawn = np.bincount(labels[part[device]], minlength=10) / len(part[device])
            trained = population.counts[device] / population.sizes[device]
            assert np.abs(drawn - trained).max() < 0.02  # the same archetype in all three


def test_devices_may_share_examples_because_there_are_not_enough() -> None:
    population = hierarchical(Source(np.arange(5000) % 10, 10))
    assert population.sizes.sum() > 5000
    assert len(np.unique(population.train.indices)) < population.sizes.sum()
    assert population.test is None  # no test labels were given


def test_hypergeometric_shares_are_those_of_the_urn() -> None:
    stats = pytest.importorskip("scipy.stats")
    for successes in (5, 25, 45, 65, 85, 105):
        exact = stats.hypergeom.pmf(np.arange(11), 110, successes, 10)
        assert label_shares(10, 110, successes) == pytest.approx(exact[:10] / exact[:10].sum(), rel=1e-9, abs=1e-12)


def test_hypergeometric_devices_slide_over_the_labels(cifar10: Source) -> None:
    population = hypergeometric(cifar10)
    assert population.groups is not None
    assert population.groups.tolist() == np.repeat(np.arange(6), 5).tolist()
    assert population.counts.argmax(axis=1).tolist() == np.repeat([0, 2, 4, 6, 8, 9], 5).tolist()
    assert np.ptp(population.sizes) == 0
    assert population.sizes[0] > 4500  # near 5,000; label 9 of the last archetype permits no more


def test_the_number_of_examples_can_be_asked_for() -> None:
    source = Source(np.arange(50_000) % 10, 10, np.arange(10_000) % 10)
    population = hypergeometric(source, examples=2000)
    assert (population.sizes == 2000).all()
    assert population.validation is not None
    assert population.test is not None
    assert set(population.validation.sizes.tolist()) == {500} == set(population.test.sizes.tolist())
