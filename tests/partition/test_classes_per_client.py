"""Exactly c classes a client, and the random table behind it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askew.core.dataset import Source
from askew.partition import classes_per_client
from askew.partition.membership import random_membership


@settings(max_examples=80, deadline=None)
@given(clients=st.integers(1, 30), classes=st.integers(1, 8), seed=st.integers(0, 10**6), equal=st.booleans())
def test_exactly_as_many_classes_as_asked(clients: int, classes: int, seed: int, equal: bool) -> None:
    sizes = np.random.default_rng(seed).integers(60, 200, 8)
    source = Source(np.repeat(np.arange(8), sizes), 8)
    population = classes_per_client(source, clients=clients, classes=classes, equal_sizes=equal, seed=seed)
    assert ((population.counts > 0).sum(axis=1) == classes).all()
    if equal:
        assert len(np.unique(population.counts[population.counts > 0])) == 1
    elif clients * classes >= 8:
        assert population.sizes.sum() == sizes.sum()


def test_fednnnn_two_classes_on_even_data_are_balanced() -> None:
    population = classes_per_client(Source(np.arange(50_000) % 10, 10), clients=100, classes=2)
    assert (population.sizes == 500).all()
    assert set(population.counts.ravel().tolist()) == {0, 250}


def test_uneven_classes_have_holders_in_proportion(mnist: Source) -> None:
    population = classes_per_client(mnist, clients=100, classes=2, seed=1)
    assert population.sizes.sum() == 60_000
    assert np.ptp(population.sizes) < 0.1 * 600
    equal = classes_per_client(mnist, clients=100, classes=2, equal_sizes=True, seed=1)
    assert np.ptp(equal.sizes) == 0
    assert equal.sizes.sum() > 0.93 * 60_000


def test_fewer_places_than_classes_leave_classes_out() -> None:
    population = classes_per_client(Source(np.arange(100) % 10, 10), clients=2, classes=3)
    assert (population.counts.sum(axis=0) > 0).sum() == 6
    assert population.class_totals is not None
    assert (population.class_totals == 10).all()  # EMD still compares with all of the data


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_membership_keeps_both_sums(data: st.DataObject) -> None:
    clients = data.draw(st.integers(1, 20))
    per_client = data.draw(st.integers(1, 6))
    holders = np.zeros(6, np.int64)
    for _ in range(clients * per_client):  # any column sums that are possible at all
        holders[data.draw(st.sampled_from(np.flatnonzero(holders < clients).tolist()))] += 1
    table = random_membership(holders, clients, np.random.default_rng(0))
    assert (table.sum(axis=1) == per_client).all()
    assert (table.sum(axis=0) == holders).all()


def test_membership_is_as_random_as_independent_choices() -> None:
    # 3 of 6 classes, each held by half of the clients: all 20 combinations equally likely.
    table = random_membership(np.full(6, 2000), 4000, np.random.default_rng(3))
    combinations = np.bincount(table @ (1 << np.arange(6)))
    seen = combinations[combinations > 0]
    assert len(seen) == 20
    assert ((seen - 200) ** 2 / 200).sum() < 50  # chi-square with 19 degrees of freedom: about 1 in 10,000


def test_whole_data_with_every_client() -> None:
    population = classes_per_client(Source(np.arange(100) % 5, 5), clients=4, classes=5)
    assert (population.counts == 5).all()


def test_label_blocks_are_niid_5_for_two_agents() -> None:
    from askew.partition import label_blocks

    counts = label_blocks(Source(np.arange(100) % 10, 10), clients=2).counts
    assert counts.tolist() == [[10] * 5 + [0] * 5, [0] * 5 + [10] * 5]
    three = label_blocks(Source(np.arange(100) % 10, 10), clients=3).counts
    assert [np.flatnonzero(row).tolist() for row in three] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize("stratified", [True, False])
def test_iid_spreads_classes(stratified: bool) -> None:
    from askew.partition import iid

    counts = iid(Source(np.arange(10_000) % 10, 10), clients=10, stratified=stratified).counts
    assert (counts.sum(axis=1) == 1000).all()
    assert (np.ptp(counts, axis=0) == 0).all() == stratified
    assert np.abs(counts - 100).max() < 60
