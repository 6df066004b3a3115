"""The cohort's statistics by hand, and however they arrive."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from askew.core.cohort import LONGEST, Cohort

LIKE = {"a": torch.zeros(2), "b": torch.zeros(1)}


def stacked(*rows):
    """One row a client: (a0, a1, b)."""
    t = torch.tensor(rows, dtype=torch.float32)
    return {"a": t[:, :2], "b": t[:, 2:]}


def cohort_of(rows, weights, needs=("signs",)):
    cohort = Cohort(LIKE, needs)
    cohort.add(stacked(*rows), torch.tensor(weights, dtype=torch.float64), list(range(len(rows))))
    return cohort


def test_two_clients_by_hand():
    """Weights 1 and 3: mean = (1 * (3, 4, 0) + 3 * (-1, 4, 4)) / 4 = (0, 4, 3); N = 5.

    Lengths 5 and sqrt(33): E = (5 + 3 sqrt(33)) / 4. Signs (1, 1, 0) + (-1, 1, 1) = (0, 2, 1).
    """
    cohort = cohort_of([(3, 4, 0), (-1, 4, 4)], [1, 3])
    assert cohort.mean["a"].tolist() == [0, 4]
    assert cohort.mean["b"].tolist() == [3]
    assert float(cohort.norm_of_mean()) == pytest.approx(5)
    assert float(cohort.mean_norm()) == pytest.approx((5 + 3 * 33**0.5) / 4)
    assert cohort.sign_sum["a"].tolist() == [0, 2]
    assert cohort.sign_sum["b"].tolist() == [1]
    assert cohort.weights.tolist() == [0.25, 0.75]


def test_norms_of_a_group_of_tensors_by_hand():
    """Only a: lengths 5 and sqrt(17), mean (0, 4)."""
    cohort = cohort_of([(3, 4, 0), (-1, 4, 4)], [1, 3])
    assert float(cohort.norm_of_mean(["a"])) == pytest.approx(4)
    assert float(cohort.mean_norm(["a"])) == pytest.approx((5 + 3 * 17**0.5) / 4)


def test_buffers_are_averaged_and_counters_rounded():
    cohort = Cohort({"w": torch.zeros(1)}, buffers={"mean": torch.zeros(1), "count": torch.tensor(0)})
    cohort.add({"w": torch.zeros(2, 1)}, torch.tensor([1.0, 3.0]), [0, 1],
               {"mean": torch.tensor([[2.0], [6.0]]), "count": torch.tensor([10, 13])})
    assert cohort.buffers["mean"].tolist() == [5.0]
    assert cohort.buffers["count"].item() == 12  # 12.25
    assert cohort.buffers["count"].dtype == torch.int64
    cohort.add({"w": torch.zeros(1, 1)}, torch.tensor([4.0]), [2], {"mean": torch.zeros(1, 1), "count": torch.tensor([13])})
    assert cohort.buffers["count"].item() == 13  # (49 + 52) / 8 = 12.625: rounded, not cut


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 9000])
def test_lengths_of_tensors_around_the_block_in_which_squares_are_added(size):
    """Ones but for a 3 at the end: the square of the length is size - 1 + 9."""
    rows = torch.ones(2, size)
    rows[:, -1] = 3
    cohort = Cohort({"w": torch.zeros(size)})
    cohort.add({"w": rows}, torch.ones(2), [0, 1])
    assert cohort.lengths.tolist() == pytest.approx([(size + 8) ** 0.5] * 2, rel=1e-12 if size % 4096 else 1e-7)
    assert float(cohort.mean_norm()) == pytest.approx((size + 8) ** 0.5, rel=1e-7)


def test_lengths_of_the_updates_show_which_are_not_finite():
    cohort = cohort_of([(1, 2, 2), (float("nan"), 0, 0), (0, float("inf"), 0)], [1, 1, 1])
    lengths = cohort.lengths.tolist()
    assert lengths[0] == 3.0
    assert not any(length <= LONGEST for length in lengths[1:])


rows = st.lists(st.tuples(*[st.floats(-10, 10, width=32)] * 3, st.floats(0.125, 100, width=32)), min_size=1, max_size=12)


@settings(deadline=None)
@given(rows, st.randoms(use_true_random=False), st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_any_order_and_chunking_gives_the_same_statistics(clients, shuffler, chunks):
    whole = cohort_of([c[:3] for c in clients], [c[3] for c in clients])
    order = list(range(len(clients)))
    shuffler.shuffle(order)
    parts, at = [Cohort(LIKE, ["signs"]), Cohort(LIKE, ["signs"])], 0
    for i, size in enumerate(chunks):
        mine = order[at : at + size]
        at += size
        if mine:
            parts[i % 2].add(stacked(*[clients[k][:3] for k in mine]),
                             torch.tensor([clients[k][3] for k in mine], dtype=torch.float64), mine)
    parts[0].merge(parts[1])
    streamed = parts[0]
    assert streamed.clients == whole.clients
    torch.testing.assert_close(streamed.weights, whole.weights, atol=0, rtol=1e-12)
    assert streamed.lengths.tolist() == whole.lengths.tolist()
    for name in LIKE:
        torch.testing.assert_close(streamed.mean[name], whole.mean[name], atol=1e-6, rtol=1e-6)
        assert torch.equal(streamed.sign_sum[name], whole.sign_sum[name])
    for names in (None, ["a"], ["b"]):
        torch.testing.assert_close(streamed.norm_of_mean(names), whole.norm_of_mean(names), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(streamed.mean_norm(names), whole.mean_norm(names), atol=1e-6, rtol=1e-6)
    assert float(streamed.norm_of_mean()) <= float(streamed.mean_norm()) * (1 + 1e-6) + 1e-9  # fednnnn2020, proposition 1
