"""What stays at the server and what comes back from it."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core import skew
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.partition import draw, hold_out

SOURCE = Source(np.random.default_rng(0).permutation(np.arange(50_000) % 10), 10)


def test_ozdayi_five_percent_balanced() -> None:
    server, rest = hold_out(SOURCE, 0.05)
    assert np.bincount(SOURCE.labels[server]).tolist() == [250] * 10
    assert np.array_equal(np.sort(np.concatenate([server, rest])), np.arange(50_000))


def test_zhao_clients_are_the_same_whatever_the_size_of_g() -> None:
    small, rest_small = hold_out(SOURCE, 0.2, size=1000)
    large, rest_large = hold_out(SOURCE, 0.2, size=4000)
    assert len(rest_small) == 40_000
    assert np.array_equal(rest_small, rest_large)
    assert np.bincount(SOURCE.labels[large]).tolist() == [400] * 10
    assert set(small.tolist()) < set(large.tolist())
    assert not set(large.tolist()) & set(rest_large.tolist())


def test_a_size_that_does_not_divide_is_balanced_up_to_one() -> None:
    server, _ = hold_out(SOURCE, 0.2, size=1003)
    counts = np.bincount(SOURCE.labels[server])
    assert counts.sum() == 1003
    assert np.ptp(counts) == 1


def test_balanced_means_equally_many_of_each_class_even_if_classes_are_not() -> None:
    uneven = Source(np.repeat(np.arange(2), [100, 900]), 2)
    server, _ = hold_out(uneven, 0.1)
    assert np.bincount(uneven.labels[server]).tolist() == [50, 50]
    with pytest.raises(AskewError, match=r"needs 150 examples of class 0, there are 100; ask for at most 0\.2"):
        hold_out(uneven, 0.3)


@pytest.mark.parametrize(("fraction", "size", "says"), [
    (0.0, None, "fraction of 0.0"), (1.0, None, "fraction of 1.0"), (-0.1, None, "fraction of -0.1"),
    (float("nan"), None, "fraction of nan"), (0.1, 6000, r"outside 1\.\.5000"), (0.1, 0, r"outside 1\.\.5000")])
def test_what_cannot_be_held_out_is_refused(fraction: float, size: int | None, says: str) -> None:
    with pytest.raises(AskewError, match=says):
        hold_out(SOURCE, fraction, size)


def test_the_whole_of_g_goes_to_each_client() -> None:
    population = draw("shards(clients=10, shards_per_client=1)", SOURCE, hold_out=(0.2, 4000), share=1.0)
    assert (population.sizes == 8000).all()
    # 4,000 of the own class plus 400 of each: shares 4,400 / 8,000 and nine times 400 / 8,000.
    assert skew.emd(population.counts, population.class_totals) == pytest.approx(np.full(10, 2 * (0.55 - 0.1)))
    assert population.class_totals is not None
    assert (population.class_totals == 5000).all()
    assert population.scheme == ("shards(clients=10, shards_per_client=1, distinct=False) "
                                 "+ hold_out(fraction=0.2, size=4000) + share(alpha=1.0)")


def test_each_client_gets_a_portion_of_its_own() -> None:
    population = draw("shards(clients=10, shards_per_client=1)", SOURCE, hold_out=(0.2, 4000), share=0.5)
    before = draw("shards(clients=10, shards_per_client=1)", SOURCE, hold_out=(0.2, 4000))
    server = set(population.server.tolist())
    assert len(server) == 4000
    portions = []
    for client in range(10):
        own, now = before.train[client].tolist(), population.train[client].tolist()
        assert now[: len(own)] == own
        portion = set(now[len(own):])
        assert len(portion) == 2000 == len(now) - len(own)
        assert portion <= server
        portions.append(portion)
    overlap = len(portions[0] & portions[1])
    assert 800 < overlap < 1200  # independent halves share a quarter
    assert np.array_equal(population.counts, population.train.counts(SOURCE.labels, 10))


def test_portions_do_not_depend_on_how_many_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    whole = draw("iid(clients=20)", SOURCE, hold_out=(0.01, None), share=0.3)
    monkeypatch.setattr(sys.modules["askew.partition.server_share"], "_CELLS", 1500)
    parts = draw("iid(clients=20)", SOURCE, hold_out=(0.01, None), share=0.3)
    assert np.array_equal(whole.train.indices, parts.train.indices)


def test_sharing_needs_something_to_share() -> None:
    with pytest.raises(AskewError, match="the server has no examples"):
        draw("iid(clients=10)", SOURCE, share=0.5)
    with pytest.raises(AskewError, match=r"alpha=1\.5"):
        draw("iid(clients=10)", SOURCE, hold_out=(0.1, None), share=1.5)


def test_hold_out_keeps_natural_owners_and_archetype_validation_straight() -> None:
    source = Source(SOURCE.labels, 10, np.arange(1000) % 10, client_ids=np.arange(50_000) % 100)
    population = draw("natural()", source, hold_out=(0.1, None))
    assert source.client_ids is not None
    for client in (0, 42, 99):
        assert (source.client_ids[population.train[client]] == client).all()
    archetypes = draw("hierarchical()", source, hold_out=(0.1, None))
    assert archetypes.validation is not None
    held = set(archetypes.server.tolist())
    assert not held & set(archetypes.train.indices.tolist())
    assert not held & set(archetypes.validation.indices.tolist())
    labels = source.labels[archetypes.validation[0]]
    assert np.bincount(labels, minlength=10).argmax() == 0
