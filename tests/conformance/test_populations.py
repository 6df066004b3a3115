"""Every partition and every loader: what all federations and all data sets must satisfy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conform.loaders import write_all
from conform.pieces import PIECES

import askew
from askew.core import registry
from askew.core.dataset import Source
from askew.core.population import Population
from askew.engine.build import build_task

pytestmark = pytest.mark.slow  # whole runs: tens of them

PARTITIONS = [call for calls in PIECES["partition"].values() for call in calls]
# Examples that several clients may own at once: schemes that draw for each device from the whole.
SHARED = ("hierarchical", "hypergeometric")
NO_CHANCE = ("pooled", "label_blocks", "natural()", "natural(min_examples")  # the seed decides nothing there
CLIENTS = {"pooled": 1, "natural()": 7}


def source(seed=0, count=600, classes=10):
    generator = np.random.default_rng(seed)
    owners = generator.integers(0, 7, count)
    return Source(generator.permutation(np.arange(count) % classes), classes, generator.integers(0, classes, 200),
                  owners, generator.integers(0, 7, 200))


def draw(call, seed=0):
    return registry.build("partition", call, source=source(), seed=seed)


def clients_wanted(call):
    args = registry.parse("partition", call).args
    return args.get("clients", CLIENTS.get(call, CLIENTS.get(call.partition("(")[0])))


def parts(population):
    return {name: part for name in ("train", "validation", "test") if (part := getattr(population, name)) is not None}


@pytest.mark.parametrize("call", PARTITIONS)
def test_every_index_is_in_range_and_the_counts_are_right(call):
    given, population = source(), draw(call)
    for name, part in parts(population).items():
        labels = given.test_labels if name == "test" else given.labels
        assert len(part) == population.num_clients
        assert part.offsets[0] == 0
        assert part.offsets[-1] == len(part.indices)
        assert (np.diff(part.offsets) > 0).all(), f"{name}: a client has nothing"
        assert 0 <= part.indices.min() <= part.indices.max() < len(labels)
    assert population.counts.shape == (population.num_clients, 10)
    for client in range(population.num_clients):
        assert population.counts[client].tolist() == np.bincount(given.labels[population.train[client]],
                                                                 minlength=10).tolist()
    assert population.class_totals.tolist() == np.bincount(given.labels, minlength=10).tolist()
    wanted = clients_wanted(call)
    if wanted is not None:
        assert population.num_clients == wanted


@pytest.mark.parametrize("call", PARTITIONS)
def test_no_example_is_owned_twice(call):
    """Within a client never, in training and validation together; between clients only where the scheme says so."""
    population = draw(call)
    for client in range(population.num_clients):
        owned = [population.train[client]] + ([population.validation[client]] if population.validation is not None
                                              else [])
        together = np.concatenate(owned)
        assert len(np.unique(together)) == len(together)
    everything = np.concatenate([part.indices for name, part in parts(population).items() if name != "test"]
                                + [population.server])
    if not call.startswith(SHARED):
        assert len(np.unique(everything)) == len(everything)


@pytest.mark.parametrize("call", PARTITIONS)
def test_the_seed_decides(call):
    first, again = draw(call), draw(call)
    for name, part in parts(first).items():
        assert np.array_equal(part.indices, parts(again)[name].indices)
        assert np.array_equal(part.offsets, parts(again)[name].offsets)
    others = [draw(call, seed) for seed in (1, 2, 3)]
    same = [np.array_equal(first.train.indices, o.train.indices)
            and np.array_equal(first.train.offsets, o.train.offsets) for o in others]
    assert same == [call.startswith(NO_CHANCE)] * 3


@pytest.mark.parametrize("call", PARTITIONS)
def test_a_population_survives_its_file(call, tmp_path):
    population = draw(call)
    population.save(tmp_path / "population.npz")
    loaded = Population.load(tmp_path / "population.npz")
    assert loaded.describe() == population.describe()
    for name, part in parts(population).items():
        assert np.array_equal(parts(loaded)[name].indices, part.indices)
        assert np.array_equal(parts(loaded)[name].offsets, part.offsets)


@pytest.mark.parametrize("call", [call for call in PARTITIONS if not call.startswith("natural")])
def test_every_partition_can_be_trained_with(call):
    """Two rounds on the digits, vectorised against one by one."""
    recipe = askew.Recipe(population=call, rounds=2, batch_size=40, model="mlp(hidden=[8])")
    reference, ours = (askew.run(recipe, engine=engine) for engine in ("sequential", "vectorised"))
    for name, v in reference.model.items():
        assert float((ours.model[name] - v).norm() / v.norm()) < 1e-4
    assert [r["clients"] for r in ours.records] == [r["clients"] for r in reference.records]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_all(folder)
    return folder


LOADERS = [call for calls in PIECES["data"].values() for call in calls]


def load(call, files):
    return registry.build("data", call.replace("{files}", str(files)), data_dir=str(files))


@pytest.mark.parametrize("call", LOADERS)
def test_every_loader_gives_a_data_set_that_can_be_trained_on(call, files, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data, again = load(call, files), load(call, files)
    for split in ("train", "test"):
        examples, twice = getattr(data, split), getattr(again, split)
        assert torch.equal(examples.x, twice.x)
        assert torch.equal(examples.y, twice.y)
        assert len(examples.x) == len(examples.y) > 0
        assert examples.y.dtype == torch.int64
        assert 0 <= int(examples.y.min()) <= int(examples.y.max()) < data.num_classes
        ids = data.client_ids if split == "train" else data.test_client_ids
        assert ids is None or len(ids) == len(examples)
    assert len(set(data.classes)) == len(data.classes) == data.num_classes
    assert len(data.train.x.flatten(1).unique(dim=0)) > 1, "all examples are one and the same"
    recipe = askew.Recipe(population="iid(clients=2)", model="mlp(hidden=[4])", rounds=1)
    result = askew.run(recipe, data=data, engine="vectorised")
    start = build_task(recipe, data=data).fresh.params
    assert any(not torch.equal(result.model[name], v) for name, v in start.items())


@pytest.mark.parametrize("call", [call for call in LOADERS if "client" in call or call.startswith(("npz", "speech"))])
def test_natural_owners_come_with_the_data(call, files, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = load(call, files)
    population = registry.build("partition", "natural()", source=Source.of(data), seed=0)
    assert population.num_clients == len(np.unique(data.client_ids))
    for client in range(population.num_clients):
        assert len(set(data.client_ids[population.train[client]])) == 1
