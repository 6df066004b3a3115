"""Quantity skew, index for index against the lines of NIID-Bench that draw it."""

# ruff: noqa: NPY002 - the lines of NIID-Bench are quoted as they are
from __future__ import annotations

import numpy as np
import pytest

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.partition import dirichlet_sizes


def niid_bench(partition: str, n_train: int, n_parties: int, beta: float, init_seed: int) -> dict[int, np.ndarray]:
    """`partition_data` of NIID-Bench's utils.py, its lines of these two partitions, after `np.random.seed(init_seed)`
    as its experiments.py has it."""
    np.random.seed(init_seed)
    if partition == "homo":
        idxs = np.random.permutation(n_train)
        batch_idxs = np.array_split(idxs, n_parties)
        return {i: batch_idxs[i] for i in range(n_parties)}
    idxs = np.random.permutation(n_train)
    min_size = 0
    while min_size < 10:
        proportions = np.random.dirichlet(np.repeat(beta, n_parties))
        proportions = proportions/proportions.sum()
        min_size = np.min(proportions*len(idxs))
    proportions = (np.cumsum(proportions)*len(idxs)).astype(int)[:-1]
    batch_idxs = np.split(idxs, proportions)
    return {i: batch_idxs[i] for i in range(n_parties)}


@pytest.mark.parametrize(("examples", "clients", "beta", "seed"), [
    (60_000, 10, 0.5, 0), (60_000, 10, 0.1, 1), (50_000, 100, 1.5, 2), (1_437, 10, 0.5, 3), (60_001, 7, 5.0, 12345)])
def test_every_index_is_that_of_niid_bench(examples: int, clients: int, beta: float, seed: int) -> None:
    before = np.random.get_state()
    for name, given in (("iid-diff-quantity", beta), ("homo", None)):
        theirs = niid_bench(name, examples, clients, beta, seed)
        np.random.set_state(before)
        ours = dirichlet_sizes(Source(np.zeros(examples, np.int64), 1), clients=clients, beta=given, seed=seed)
        assert len(theirs) == ours.num_clients
        for k, indices in theirs.items():
            assert np.array_equal(np.sort(indices), ours.train[k]), (name, k)


def test_numpys_own_stream_is_left_alone() -> None:
    np.random.seed(5)
    wanted = np.random.random()
    np.random.seed(5)
    dirichlet_sizes(Source(np.zeros(100, np.int64), 1), clients=3, beta=0.5)
    assert np.random.random() == wanted


@pytest.mark.parametrize(("given", "says"), [
    ({"clients": 3, "beta": 0.0}, r"beta=0.0 must be above 0; leave sizes equal with beta=None"),
    ({"clients": 3, "beta": float("inf")}, "beta=inf must be above 0"),
    ({"clients": 30, "beta": 0.5}, r"min_examples=10 is outside 1..3 \(100 examples for 30 clients\)"),
    ({"clients": 9, "beta": 0.01}, "no draw in 100,000 gave every one of 9 clients min_examples=10 at beta=0.01"),
    ({"clients": 0}, "clients must be at least 1, not 0")])
def test_what_cannot_be_drawn_is_refused(given: dict, says: str) -> None:
    with pytest.raises(AskewError, match=says):
        dirichlet_sizes(Source(np.zeros(100, np.int64), 1), **given)
