"""Populations: ownership, counts, files."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from askew.core.dataset import Dataset
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
    for name, population in (("a.npz", full()), ("b.npz", Population.of(Ownership.of([[0], [1]]), LABELS, 3))):
        population.save(tmp_path / name)
        again = Population.load(tmp_path / name)
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
        with pytest.raises(AskewError, match=r"cannot be read as a population file|is not a population file") as error:
            Population.load(tmp_path / name)
        assert "\n" not in str(error.value)


def test_skew_by_hand():
    """Two classes of two examples; client 0 has one of each, client 1 one of class 1: 0 and |0 - 1/2| + |1 - 1/2|."""
    population = Population.of(Ownership.of([[0, 2], [3]]), np.array([0, 0, 1, 1]), 2)
    assert population.emd.tolist() == [0.0, 1.0]
    assert population.mean_emd == 0.5
    assert population.entropy.tolist() == [1.0, 0.0]
    assert population.classes_per_client.tolist() == [2, 1]


def rewritten(path, **changes):
    """A population's file with some arrays (or entries of `about`) changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays["about"]))
    for name, value in changes.items():
        if name in about:
            about[name] = value
        else:
            arrays[name] = np.asarray(value)
    np.savez(path, **{**arrays, "about": np.array(json.dumps(about))})
    return path


@pytest.mark.parametrize(("changes", "says"), [
    ({"train_indices": [0, 1, 3, 3]}, "no example is in two places, but one is"),
    ({"train_indices": [0, 1, 1, 2]}, "client 0 has example 1 twice"),
    ({"server": [0]}, "no example is in two places, but one is"),
    ({"validation_indices": [0, 5]}, "no example is in two places, but one is"),
    ({"train_indices": [0, 1, -3, 2]}, "index -3 is negative"),
    ({"train_indices": [0.0, 1.0, 3.0, 2.0]}, "must be whole numbers"),
    ({"train_indices": [[0, 1, 3, 2]]}, "must be whole numbers on 1 axis"),
    ({"train_offsets": [0, 5, 4]}, "offsets must go up"),
    ({"train_offsets": [0, 4]}, "counts of shape"),
    ({"train_offsets": [0, 4, 4]}, "counts of shape"),
    ({"validation_offsets": [0, 2]}, "validation has 1 entries; 2 are needed"),
    ({"test_offsets": [0, 2]}, "test has 1 entries; 2 are needed"),
    ({"groups": [0]}, "groups has 1 entries; 2 are needed"),
    ({"class_totals": [1, 2]}, "class_totals has 2 entries; 3 are needed"),
    ({"class_totals": [-1, 2, 3]}, "class_totals has the negative number -1"),
    ({"counts": [[2, 1, 0], [0, 0, 2]]}, "counts of shape"),
    ({"counts": [2, 1, 0]}, "counts must be whole numbers on 2 axes"),
    ({"counts": [[4, -1, 0], [0, 0, 1]]}, "counts has the negative number -1"),
    ({"server": [-1]}, "server has the negative number -1"),
    ({"server": [1.5]}, "server must be whole numbers"),
    ({"seed": "4"}, "scheme and seed"), ({"seed": True}, "scheme and seed"), ({"scheme": 5}, "scheme and seed"),
    ({"format": "askew population 2"}, "its format is not"),
])
def test_a_file_that_contradicts_itself_is_refused(tmp_path, refused, changes, says):
    full().save(tmp_path / "p.npz")
    with refused(f"is not a population file.*{says}"):
        Population.load(rewritten(tmp_path / "p.npz", **changes))


def test_a_file_that_is_there_is_kept(tmp_path, refused):
    """Whatever it is: also from Python nothing is overwritten unasked."""
    (tmp_path / "p.npz").write_text("three years of work")
    with refused("population file: .*p.npz' exists already; name another file, or say overwrite=True"):
        full().save(tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_text() == "three years of work"
    full().save(tmp_path / "p.npz", overwrite=True)
    assert Population.load(tmp_path / "p.npz").num_clients == full().num_clients


@pytest.mark.parametrize("about", ["[]", "5", "{", "[" * 10_000, '{"format": "askew population 1"}', "null"])
def test_a_file_about_nothing_is_refused(tmp_path, refused, about):
    full().save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as file:
        arrays = {**file, "about": np.array(about)}
    np.savez(tmp_path / "p.npz", **arrays)
    with refused("is not a population file"):
        Population.load(tmp_path / "p.npz")


def data(labels=LABELS, test=2):
    x = torch.zeros(len(labels), 2)
    return Dataset.from_tensors((x, torch.from_numpy(labels)), (x[:test], torch.from_numpy(labels[:test])),
                                classes=["a", "b", "c"], name="seven")


@pytest.mark.parametrize(("change", "says"), [
    (lambda p: (p, data(LABELS[:6])), "server index 6 is outside the 6 examples of seven"),
    (lambda p: (p, data(LABELS[:5])), "validation index 5 is outside the 5 examples"),
    (lambda p: (p, data(LABELS[:3], 2)), "train index 3 is outside the 3 examples"),
    (lambda p: (p, data(LABELS, 1)), "test index 1 is outside the 1 examples"),
    (lambda p: (p, data(np.roll(LABELS, 1))), "the classes of client 0 are others in seven than it counts"),
    (lambda p: (replace(p, counts=p.counts[:, [0, 2, 1]]), data()), "the classes of client 0 are others"),
    (lambda p: (replace(p, server=np.array([6, 6])), data()), "client 0 has example 6 twice"),
    (lambda p: (replace(p, validation=Ownership.of([[4], [2]])), data()), "client 1 has example 2 twice"),
    (lambda p: (Population.of(Ownership.of([[0]]), np.array([0]), 4), data()), "it has 4 classes, seven has 3"),
])
def test_a_population_meets_its_data(refused, change, says):
    full().check_data(data())
    population, against = change(full())
    with refused(says):
        population.check_data(against)


def test_examples_may_be_shared_where_the_population_says_so(tmp_path):
    shared = Population.of(Ownership.of([[0, 1], [1, 2]]), LABELS, 3, server=np.array([2]))
    assert shared.shares
    assert not full().shares
    shared.check_data(data())
    shared.save(tmp_path / "p.npz")
    Population.load(tmp_path / "p.npz").check_data(data())


def test_labels_that_do_not_fit_are_refused(refused):
    with refused("train index 9 is outside the 7 examples of these labels"):
        Population.of(Ownership.of([[9]]), LABELS, 3)
    with refused(r"labels 0\.\.2 are not those of 2 classes"):
        Population.of(Ownership.of([[0]]), LABELS, 2)
    with refused("labels must be whole numbers"):
        Population.of(Ownership.of([[0]]), LABELS * 0.5, 3)


@pytest.mark.parametrize("counts", [5, [3], [[3]], [[2, 0], [1, 0]], [[1, 1], [1, 0]]])
def test_counts_that_do_not_fit_are_refused(refused, counts):
    with refused("counts (of shape|must be an array)"):
        Population(Ownership.of([[0], [1]]), np.array(counts))
