"""The cohort's statistics by hand, and however they arrive."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from askew.core.cohort import LONGEST, Cohort
from askew.core.errors import AskewError
from askew.core.statistic import Senders
from askew.pieces.statistic import Everything, MeanOf, SignSum

LIKE = {"a": torch.zeros(2), "b": torch.zeros(1)}
SIGNS = (SignSum(),)
SENT = [*SIGNS, Everything(), Everything("extra"), MeanOf("extra"), MeanOf("extra", "examples"),
        MeanOf("update", "steps")]


def stacked(*rows):
    """One row per client: (a0, a1, b)."""
    t = torch.tensor(rows, dtype=torch.float32)
    return {"a": t[:, :2], "b": t[:, 2:]}


def senders(clients, examples=None, steps=None):
    """Client k has k + 1 examples and takes 2 k + 1 steps, unless told otherwise."""
    examples = [k + 1.0 for k in clients] if examples is None else examples
    steps = [2.0 * k + 1 for k in clients] if steps is None else steps
    ones = torch.ones(len(clients))
    return Senders(clients, torch.tensor(examples, dtype=torch.float64), torch.tensor(steps, dtype=torch.float64), ones,
                   ones)


def message(rows):
    """Besides its update a client sends a number and a pair: its first and its last two coordinates."""
    t = torch.tensor(rows, dtype=torch.float32)
    return {"update": stacked(*rows), "extra": (t[:, 0], {"pair": t[:, 1:]})}


def cohort_of(rows, weights, needs=SIGNS):
    cohort = Cohort(LIKE, needs)
    cohort.add(message(rows), senders(range(len(rows))), torch.tensor(weights, dtype=torch.float64))
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
    assert cohort[SignSum()]["a"].tolist() == [0, 2]
    assert cohort[SignSum()]["b"].tolist() == [1]
    assert cohort.weights.tolist() == [0.25, 0.75]


def test_norms_of_a_group_of_tensors_by_hand():
    """Only a: lengths 5 and sqrt(17), mean (0, 4)."""
    cohort = cohort_of([(3, 4, 0), (-1, 4, 4)], [1, 3])
    assert float(cohort.norm_of_mean(["a"])) == pytest.approx(4)
    assert float(cohort.mean_norm(["a"])) == pytest.approx((5 + 3 * 17**0.5) / 4)


def test_buffers_are_averaged_and_counters_rounded():
    cohort = Cohort({"w": torch.zeros(1)}, buffers={"mean": torch.zeros(1), "count": torch.tensor(0)})
    cohort.add({"update": {"w": torch.zeros(2, 1)},
                "buffers": {"mean": torch.tensor([[2.0], [6.0]]), "count": torch.tensor([10, 13])}},
               senders([0, 1]), torch.tensor([1.0, 3.0]))
    assert cohort.buffers["mean"].tolist() == [5.0]
    assert cohort.buffers["count"].item() == 12  # 12.25
    assert cohort.buffers["count"].dtype == torch.int64
    cohort.add({"update": {"w": torch.zeros(1, 1)},
                "buffers": {"mean": torch.zeros(1, 1), "count": torch.tensor([13])}},
               senders([2]), torch.tensor([4.0]))
    assert cohort.buffers["count"].item() == 13  # (49 + 52) / 8 = 12.625: rounded, not cut


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 9000])
def test_lengths_of_tensors_around_the_block_in_which_squares_are_added(size):
    """Ones but for a 3 at the end: the square of the length is size - 1 + 9."""
    rows = torch.ones(2, size)
    rows[:, -1] = 3
    cohort = Cohort({"w": torch.zeros(size)})
    cohort.add({"update": {"w": rows}}, senders([0, 1]), torch.ones(2))
    assert cohort.lengths.tolist() == pytest.approx([(size + 8) ** 0.5] * 2, rel=1e-12 if size % 4096 else 1e-7)
    assert float(cohort.mean_norm()) == pytest.approx((size + 8) ** 0.5, rel=1e-7)


def test_statistics_by_hand():
    """Clients 4 and 2 send (3, 4, 0) and (-1, 4, 4); they have 1 and 3 examples, and take 4 and 1 steps.

    The mean of the update by steps: (4 (3, 4, 0) + (-1, 4, 4)) / 5 = (2.2, 4, 0.8); of what else they send,
    uniformly: (3 - 1) / 2 = 1 and ((4, 0) + (4, 4)) / 2 = (4, 2),
    by examples: (3 - 3) / 4 = 0 and ((4, 0) + 3 (4, 4)) / 4 = (4, 3).
    """
    cohort = Cohort(LIKE, SENT)
    cohort.add(message([(3, 4, 0), (-1, 4, 4)]), senders([4, 2], [1.0, 3.0], [4.0, 1.0]), torch.ones(2))
    assert {name: v.tolist() for name, v in cohort[SignSum()].items()} == {"a": [0, 2], "b": [1]}
    # 2, then 4.
    assert {name: v.tolist() for name, v in cohort[Everything()].items()} == {"a": [[-1, 4], [3, 4]], "b": [[4], [0]]}
    first, rest = cohort[Everything("extra")]
    assert (first.tolist(), rest["pair"].tolist()) == ([-1, 3], [[4, 4], [4, 0]])
    by_steps = cohort[MeanOf("update", "steps")]
    assert [*by_steps["a"].tolist(), *by_steps["b"].tolist()] == pytest.approx([2.2, 4, 0.8])
    for weights, number, pair in (("uniform", 1.0, [4, 2]), ("examples", 0.0, [4, 3])):
        first, rest = cohort[MeanOf("extra", weights)]
        assert (float(first), rest["pair"].tolist()) == (number, pair)


def test_equal_statistics_are_one_and_others_are_refused():
    assert (SignSum(), MeanOf("a")) == (SignSum(), MeanOf("a", "uniform"))
    assert len({Everything(), Everything("update"), Everything("other"), MeanOf("a"), MeanOf("a", "steps")}) == 4
    assert [s.keeps_all for s in (SignSum(), MeanOf("a"), Everything())] == [False, False, True]
    cohort = cohort_of([(1, 2, 3)], [1], [Everything()])
    with pytest.raises(AskewError, match=r"SignSum\(\) is not gathered; a piece or probe that reads it must say so: "
                                         r"needs=\[SignSum\(\)\]"):
        cohort[SignSum()]


def test_what_is_kept_does_not_change_with_the_memory_it_came_in():
    """An engine uses the memory of a chunk again."""
    cohort, rows = Cohort(LIKE, [Everything()]), message([(3, 4, 0)])
    cohort.add(rows, senders([0]), torch.ones(1))
    rows["update"]["a"].zero_()
    assert cohort[Everything()]["a"].tolist() == [[3, 4]]


def test_a_part_in_which_nobody_was_may_be_merged():
    full, empty = cohort_of([(1, -2, 3)], [1], SENT), Cohort(LIKE, SENT)
    expected = full[SignSum()]
    full.merge(empty)
    assert full[SignSum()] == expected
    empty.merge(full)
    assert empty[SignSum()] == expected
    assert empty.mean["a"].tolist() == [1, -2]


def test_lengths_of_the_updates_show_which_are_not_finite():
    cohort = cohort_of([(1, 2, 2), (float("nan"), 0, 0), (0, float("inf"), 0)], [1, 1, 1])
    lengths = cohort.lengths.tolist()
    assert lengths[0] == 3.0
    assert not any(length <= LONGEST for length in lengths[1:])


rows = st.lists(st.tuples(*[st.floats(-10, 10, width=32)] * 3, st.floats(0.125, 100, width=32)), min_size=1,
                max_size=12)


@settings(deadline=None)
@given(rows, st.randoms(use_true_random=False), st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_any_order_and_chunking_gives_the_same_statistics(clients, shuffler, chunks):
    whole = cohort_of([c[:3] for c in clients], [c[3] for c in clients], SENT)
    order = list(range(len(clients)))
    shuffler.shuffle(order)
    parts, at = [Cohort(LIKE, SENT), Cohort(LIKE, SENT)], 0
    for i, size in enumerate(chunks):
        mine = order[at : at + size]
        at += size
        if mine:
            parts[i % 2].add(message([clients[k][:3] for k in mine]), senders(mine),
                             torch.tensor([clients[k][3] for k in mine], dtype=torch.float64))
    parts[0].merge(parts[1])
    streamed = parts[0]
    assert streamed.clients == whole.clients
    torch.testing.assert_close(streamed.weights, whole.weights, atol=0, rtol=1e-12)
    assert streamed.lengths.tolist() == whole.lengths.tolist()
    for name in LIKE:
        torch.testing.assert_close(streamed.mean[name], whole.mean[name], atol=1e-6, rtol=1e-6)
    for statistic in SENT:
        got, expected = streamed[statistic], whole[statistic]
        if isinstance(statistic, MeanOf):
            torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
        else:  # signs are whole numbers, and what is kept is kept as it is
            torch.testing.assert_close(got, expected, atol=0, rtol=0)
    for names in (None, ["a"], ["b"]):
        torch.testing.assert_close(streamed.norm_of_mean(names), whole.norm_of_mean(names), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(streamed.mean_norm(names), whole.mean_norm(names), atol=1e-6, rtol=1e-6)
    # fednnnn2020, proposition 1.
    assert float(streamed.norm_of_mean()) <= float(streamed.mean_norm()) * (1 + 1e-6) + 1e-9
