"""Natural owners."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.partition import natural, pooled

SOURCE = Source(np.array([0, 1, 1, 0, 1]), 2, np.array([0, 1, 1]), client_ids=np.array([30, 10, 30, 20, 30]),
                test_client_ids=np.array([30, 99, 10]))


def test_one_client_an_owner_in_the_order_of_ids() -> None:
    population = natural(SOURCE)
    assert [population.train[k].tolist() for k in range(3)] == [[1], [3], [0, 2, 4]]
    assert population.counts.tolist() == [[0, 1], [1, 0], [1, 2]]
    assert population.test is not None
    assert [population.test[k].tolist() for k in range(3)] == [[2], [], [0]]  # owner 99 trains on nothing


def test_small_owners_can_be_left_out() -> None:
    population = natural(SOURCE, min_examples=2)
    assert population.counts.tolist() == [[1, 2]]
    assert population.class_totals is not None
    assert population.class_totals.tolist() == [2, 3]
    with pytest.raises(AskewError, match="the largest has 3"):
        natural(SOURCE, min_examples=4)


def test_a_number_of_owners_can_be_chosen() -> None:
    chosen = {tuple(natural(SOURCE, clients=1, seed=s).train[0].tolist()) for s in range(20)}
    assert chosen == {(1,), (3,), (0, 2, 4)}
    with pytest.raises(AskewError, match=r"outside 1\.\.3"):
        natural(SOURCE, clients=4)


def test_test_owners_who_are_no_clients_give_nobody_a_test_set() -> None:
    source = Source(SOURCE.labels, 2, SOURCE.test_labels, SOURCE.client_ids, np.array([7, 8, 9]))
    assert natural(source).test is None


def test_pooled_owns_everything() -> None:
    population = pooled(SOURCE)
    assert population.num_clients == 1
    assert population.train[0].tolist() == [0, 1, 2, 3, 4]
