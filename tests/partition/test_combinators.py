"""What stays at the server and what comes back from it, what clients keep for validation, what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from askew.core import skew
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.population_spec import PopulationSpec
from askew.partition import combine, draw, hold_out

ONE_CLASS = "shards(clients=10, shards_per_client=1)"
SOURCE = Source(np.random.default_rng(0).permutation(np.arange(50_000) % 10), 10)


def split(fraction: float, use: int | None = None, source: Source = SOURCE) -> tuple[np.ndarray, np.ndarray]:
    found = hold_out(fraction, use).split
    assert found is not None
    return found(source, 0)


def test_ozdayi_five_percent_balanced() -> None:
    server, rest = split(0.05)
    assert np.bincount(SOURCE.labels[server]).tolist() == [250] * 10
    assert np.array_equal(np.sort(np.concatenate([server, rest])), np.arange(50_000))


def test_zhao_clients_are_the_same_whatever_the_size_of_g() -> None:
    small, rest_small = split(0.2, 1000)
    large, rest_large = split(0.2, 4000)
    assert len(rest_small) == 40_000
    assert np.array_equal(rest_small, rest_large)
    assert np.bincount(SOURCE.labels[large]).tolist() == [400] * 10
    assert set(small.tolist()) < set(large.tolist())
    assert not set(large.tolist()) & set(rest_large.tolist())


def test_a_size_that_does_not_divide_is_balanced_up_to_one() -> None:
    server, _ = split(0.2, 1003)
    counts = np.bincount(SOURCE.labels[server])
    assert counts.sum() == 1003
    assert np.ptp(counts) == 1


def test_balanced_means_equally_many_of_each_class_even_if_classes_are_not() -> None:
    uneven = Source(np.repeat(np.arange(2), [100, 900]), 2)
    server, _ = split(0.1, source=uneven)
    assert np.bincount(uneven.labels[server]).tolist() == [50, 50]
    with pytest.raises(AskewError, match=r"needs 150 examples of class 0, there are 100; ask for at most 0\.2"):
        split(0.3, source=uneven)


@pytest.mark.parametrize(("fraction", "use", "says"), [
    (0.0, None, r"fraction must be in \(0, 1\), got 0.0"), (1.0, None, "got 1.0"), (-0.1, None, "got -0.1"),
    (float("nan"), None, "got nan"), (1e-6, None, "a fraction of 1e-06 leaves the server or the clients without any"),
    (0.1, 6000, r"use=6000 is more than the 5000 examples"), (0.1, 0, "use must be at least 1, got 0")])
def test_what_cannot_be_held_out_is_refused(fraction: float, use: int | None, says: str) -> None:
    with pytest.raises(AskewError, match=says):
        split(fraction, use)


def test_the_whole_of_g_goes_to_each_client() -> None:
    population = draw(f"{ONE_CLASS} + hold_out(0.2, use=4000) + share(1.0)", SOURCE)
    assert (population.sizes == 8000).all()
    # 4,000 of the own class plus 400 of each: shares 4,400 / 8,000 and nine times 400 / 8,000.
    assert skew.emd(population.counts, population.class_totals) == pytest.approx(np.full(10, 2 * (0.55 - 0.1)))
    assert population.class_totals is not None
    assert (population.class_totals == 5000).all()
    assert population.scheme == ("shards(clients=10, shards_per_client=1, distinct=False) "
                                 "+ hold_out(fraction=0.2, use=4000) + share(fraction=1.0)")


def test_each_client_gets_a_portion_of_its_own() -> None:
    population = draw(f"{ONE_CLASS} + hold_out(0.2, use=4000) + share(0.5)", SOURCE)
    before = draw(f"{ONE_CLASS} + hold_out(0.2, use=4000)", SOURCE)
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

    whole = draw("iid(clients=20) + hold_out(0.01) + share(0.3)", SOURCE)
    monkeypatch.setattr(sys.modules["askew.partition.share"], "_CELLS", 1500)
    parts = draw("iid(clients=20) + hold_out(0.01) + share(0.3)", SOURCE)
    assert np.array_equal(whole.train.indices, parts.train.indices)


def test_sharing_needs_something_to_share() -> None:
    with pytest.raises(AskewError, match="the server has no examples"):
        draw("iid(clients=10) + share(0.5)", SOURCE)
    with pytest.raises(AskewError, match=r"share: fraction must be in \(0, 1\], got 1\.5"):
        draw("iid(clients=10) + hold_out(0.1) + share(1.5)", SOURCE)


def test_hold_out_keeps_natural_owners_and_archetype_validation_straight() -> None:
    source = Source(SOURCE.labels, 10, np.arange(1000) % 10, client_ids=np.arange(50_000) % 100)
    population = draw("natural() + hold_out(0.1)", source)
    assert source.client_ids is not None
    for client in (0, 42, 99):
        assert (source.client_ids[population.train[client]] == client).all()
    archetypes = draw("hierarchical() + hold_out(0.1)", source)
    assert archetypes.validation is not None
    held = set(archetypes.server.tolist())
    assert not held & set(archetypes.train.indices.tolist())
    assert not held & set(archetypes.validation.indices.tolist())
    labels = source.labels[archetypes.validation[0]]
    assert np.bincount(labels, minlength=10).argmax() == 0


def test_validation_is_a_part_of_each_clients_own_examples() -> None:
    """Sizes 5,000: 1,000 to validate, 4,000 to train, nothing twice; an archetype's devices keep what they have."""
    whole, kept = draw(ONE_CLASS, SOURCE), draw(f"{ONE_CLASS} + validation(0.2)", SOURCE)
    assert kept.validation is not None
    assert (set(kept.sizes.tolist()), set(kept.validation.sizes.tolist())) == ({4000}, {1000})
    for client in range(10):
        assert sorted([*kept.train[client], *kept.validation[client]]) == whole.train[client].tolist()
    assert np.array_equal(kept.counts, kept.train.counts(SOURCE.labels, 10))
    assert (draw("hierarchical() + validation(0.9)", SOURCE).sizes.tolist()
            == draw("hierarchical()", SOURCE).sizes.tolist())


def test_a_subset_keeps_sizes_in_proportion_and_leaves_nobody_without() -> None:
    """Sizes 5,000 become 200; of 0.0001 of them, half an example, one is left. Other seeds keep other examples."""
    assert set(draw(f"{ONE_CLASS} + subset(0.04)", SOURCE).sizes.tolist()) == {200}
    assert set(draw(f"{ONE_CLASS} + subset(0.00001)", SOURCE).sizes.tolist()) == {1}
    assert np.array_equal(draw("iid(20) + subset(1.0)", SOURCE).train.indices, draw("iid(20)", SOURCE).train.indices)
    left = draw("iid(20) + validation(0.9)", SOURCE)
    assert np.array_equal(draw("iid(20) + subset(0.1)", SOURCE).train.indices, left.train.indices)
    small, whole = draw("iid(20) + subset(0.1)", SOURCE, seed=3), draw("iid(20)", SOURCE, seed=3)
    assert all(set(small.train[k]) < set(whole.train[k]) for k in range(20))
    assert not np.array_equal(small.train.indices, draw("iid(20) + subset(0.1)", SOURCE, seed=4).train.indices)


def test_combinators_act_in_the_order_in_which_they_are_written() -> None:
    """Own 4,000, shared 1,000: a fifth of all 5,000, or of the own 4,000 only, is kept for validation."""
    after = draw(f"{ONE_CLASS} + hold_out(0.2, use=1000) + share(1.0) + validation(0.2)", SOURCE)
    before = draw(f"{ONE_CLASS} + hold_out(0.2, use=1000) + validation(0.2) + share(1.0)", SOURCE)
    assert (set(after.sizes.tolist()), set(before.sizes.tolist())) == ({4000}, {4200})


def test_a_federation_of_your_own_is_changed_but_not_twice() -> None:
    spec = PopulationSpec.of("iid(clients=4) + hold_out(0.1) + share(0.5) + validation(0.2)")
    drawn = draw(spec, SOURCE)
    assert combine(drawn, spec, SOURCE) is drawn
    yours = Population.of(draw("iid(clients=4)", SOURCE).train, SOURCE.labels, 10)
    assert combine(yours, PopulationSpec.of("pooled() + validation(0.2)"), SOURCE).sizes.tolist() == [10_000] * 4
    with pytest.raises(AskewError, match=r"hold_out\(fraction=0.1\) cannot be taken from a federation of your own"):
        combine(yours, spec, SOURCE)
