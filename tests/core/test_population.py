"""Populations: ownership, counts, files."""

import numpy as np
import pytest

from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population

LABELS = np.array([0, 1, 2, 0, 1, 2, 0])


def full():
    return Population.of(Ownership.of([[0, 1, 3], [2]]), LABELS, 3, scheme="by hand", seed=4, server=np.array([6]),
                         validation=Ownership.of([[4], [5]]), test=Ownership.of([[0, 1], []]), groups=np.array([1, 0]))


def test_ownership_by_hand():
    owned = Ownership.of([[5, 2], [], [7]])
    assert len(owned) == 3
    assert owned.sizes.tolist() == [2, 0, 1]
    assert [owned[k].tolist() for k in range(3)] == [[5, 2], [], [7]]
    with pytest.raises(IndexError):
        owned[3]
    by_owner = Ownership.by_owner(np.array([1, -1, 0, 1]), 3)
    assert [by_owner[k].tolist() for k in range(3)] == [[2], [0, 3], []]
    assert Ownership.of([[0, 1], [1]]).at(np.array([10, 20])).indices.tolist() == [10, 20, 20]
    assert len(Ownership.of([])) == 0


def test_counts_by_hand():
    population = full()
    assert population.counts.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert population.class_totals.tolist() == [3, 2, 2]
    assert (population.num_clients, population.num_classes, population.sizes.tolist()) == (2, 3, [3, 1])
    assert population.describe() == {"scheme": "by hand", "seed": 4, "clients": 2, "classes": 3, "examples": 4,
                                     "server_examples": 1}


def test_a_subset_is_turned_into_the_whole():
    whole = full().at(np.array([10, 11, 12, 13, 14, 15, 16]))
    assert whole.train[0].tolist() == [10, 11, 13]
    assert whole.validation[1].tolist() == [15]
    assert whole.server.tolist() == [16]
    assert whole.test[0].tolist() == [0, 1]  # test examples are numbered by themselves


def test_a_file_reads_back_to_the_same_population(tmp_path):
    for population in (full(), Population.of(Ownership.of([[0], [1]]), LABELS, 3)):
        population.save(tmp_path / "p.npz")
        again = Population.load(tmp_path / "p.npz")
        assert (again.scheme, again.seed) == (population.scheme, population.seed)
        for name in ("counts", "server", "groups", "class_totals"):
            np.testing.assert_array_equal(getattr(again, name), getattr(population, name))
        for name in ("train", "validation", "test"):
            mine, theirs = getattr(again, name), getattr(population, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert mine.indices.tolist() == theirs.indices.tolist()
                assert mine.offsets.tolist() == theirs.offsets.tolist()
                assert mine.indices.dtype == np.int64


def test_nobody_and_nothing_are_refused():
    with pytest.raises(AskewError, match="a population needs at least one client"):
        Population.of(Ownership.of([]), LABELS, 3)
    with pytest.raises(AskewError, match=r"by hand: client 1 has no examples \(2 of 3 are empty\); ask for fewer"):
        Population.of(Ownership.of([[0], [], []]), LABELS, 3, scheme="by hand")


def test_files_that_are_no_populations(tmp_path):
    (tmp_path / "junk.npz").write_bytes(b"junk")
    np.save(tmp_path / "array.npy", LABELS)
    np.savez(tmp_path / "other.npz", x=LABELS)
    with pytest.raises(AskewError, match="No such file or directory; name a population file"):
        Population.load(tmp_path / "nothing.npz")
    for name in ("junk.npz", "array.npy", "other.npz"):
        with pytest.raises(AskewError, match="cannot be read as a population file|is not a population file") as error:
            Population.load(tmp_path / name)
        assert "\n" not in str(error.value)


def test_skew_by_hand():
    """Two classes of two examples; client 0 has one of each, client 1 one of class 1: |1/2 - 1/2| * 2 and |0 - 1/2| + |1 - 1/2|."""
    population = Population.of(Ownership.of([[0, 2], [3]]), np.array([0, 0, 1, 1]), 2)
    assert population.emd.tolist() == [0.0, 1.0]
    assert population.mean_emd == 0.5
    assert population.entropy.tolist() == [1.0, 0.0]
    assert population.classes_per_client.tolist() == [2, 1]
