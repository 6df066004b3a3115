"""Statistics: by hand, and the same whatever order and chunks the clients come in."""

import pytest
import torch

from askew.core.by_hand import server_context
from askew.core.compat import tree_leaves, tree_map
from askew.core.statistic import Senders
from askew.core.tensors import apart, places_in
from askew.pieces.statistic import Everything, MeanLoss, MeanOf, MeanPerStep, SignSum

EVERY = [Everything(), MeanLoss(), MeanOf("update"), MeanOf("update", "examples"), MeanOf("update", "steps"),
         MeanPerStep(), MeanPerStep(0.5), SignSum()]


def gathered(statistic, order, splits, merged=False):
    """Five clients with two tensors, in this order, in chunks of these sizes."""
    generator = torch.Generator().manual_seed(0)
    message = {"update": {"a": torch.randn(5, 2, 3, generator=generator), "b": torch.randn(5, generator=generator)}}
    examples, steps = torch.tensor([10.0, 20, 5, 40, 30]), torch.tensor([1.0, 2, 1, 4, 3])
    losses = torch.tensor([0.5, 1.5, 2.0, 0.25, 3.0])
    total, parts = None, []
    for rows in torch.tensor(order).split(splits):
        chunk = {"update": {name: v[rows].clone() for name, v in message["update"].items()}}
        places = places_in(chunk)
        senders = Senders(rows.tolist(), examples[rows], steps[rows], torch.ones(len(rows)), losses[rows])
        if merged:
            parts.append(apart(statistic.add(None, chunk, senders), places))  # as a cohort does
        else:
            total = apart(statistic.add(total, chunk, senders), places)
        for v in chunk["update"].values():
            v.zero_()  # engines use the memory of a chunk again
    for part in parts:
        total = part if total is None else statistic.merge(total, part)
    return statistic.value(total)


@pytest.mark.parametrize("statistic", EVERY, ids=str)
def test_order_chunks_and_merging_do_not_show(statistic):
    expected = tree_leaves(gathered(statistic, [0, 1, 2, 3, 4], [5]))
    for order, splits, merged in (([4, 2, 0, 1, 3], [5], False), ([3, 1, 4, 0, 2], [2, 1, 2], False),
                                  ([3, 1, 4, 0, 2], [1, 3, 1], True)):
        got = tree_leaves(gathered(statistic, order, splits, merged))
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_equal_ones_are_one():
    assert len({MeanOf("control"), MeanOf("control"), MeanOf("control", "steps"),
                Everything(), Everything("control")}) == 4


@pytest.mark.parametrize(("weights", "expected"), [("uniform", 3.0), ("examples", 4.5), ("steps", 5.0)])
def test_means_by_hand(weights, expected):
    """Values 1 and 5 of clients with 1 and 7 examples (36 / 8), and 0 and 3 steps."""
    statistic = MeanOf("mine", weights)
    ctx = server_context([(0,), (0,)], examples=[1, 7], steps=[0, 3], needs=[statistic],
                         sent={"mine": {"x": torch.tensor([1.0, 5.0])}})
    assert float(ctx.cohort[statistic]["x"]) == pytest.approx(expected)


def test_per_step_by_hand():
    """Updates 2 and 9, examples 1 and 3, steps 2 and 3: (1 * 1 + 3 * 3) / 4 = 2.5 per step; walk (2 + 9) / 4 = 2.75."""
    context = server_context([(2,), (9,)], examples=[1, 3], steps=[2, 3], needs=[MeanPerStep()])
    direction, walk = context.cohort[MeanPerStep()]
    assert (float(direction["w"]), walk) == pytest.approx((2.5, 2.75))


@pytest.mark.parametrize(("sent", "read"), [(torch.float64, torch.float64), (torch.float32, torch.float32),
                                            (torch.bfloat16, torch.float32), (torch.int64, torch.float32)], ids=str)
def test_means_are_of_the_type_of_what_is_sent(sent, read):
    """Values 1 and 2: 1.5, however they are written."""
    ones = torch.ones(2, dtype=torch.float64)
    values = {"update": {"w": torch.tensor([[1], [2]], dtype=sent)}}
    for statistic in (MeanOf("update"), MeanPerStep()):
        total = statistic.add(None, values, Senders([0, 1], ones, ones, ones, ones))
        mean = statistic.value(total)
        v = (mean[0] if isinstance(statistic, MeanPerStep) else mean)["w"]
        assert (v.dtype, v.tolist()) == (read, [1.5])


def test_what_nobody_asked_for_is_refused(refused):
    with refused(r"SignSum\(\) is not gathered"):
        server_context([(1,)]).cohort[SignSum()]


@pytest.mark.parametrize("statistic", EVERY, ids=repr)
def test_totals_add_up_number_by_number_where_the_statistic_says_so(statistic):
    """Several processes sum such totals without knowing what they are."""
    message = {"update": {"a": torch.tensor([[1.0, -2.0], [3.0, 4.0]])}}
    senders = [Senders([i], *(torch.tensor([float(i + 1)]) for _ in range(4))) for i in range(2)]
    parts = [statistic.add(None, {"update": {"a": message["update"]["a"][i : i + 1]}}, senders[i]) for i in range(2)]
    merged, summed = statistic.merge(*parts), tree_map(lambda x, y: x + y, *parts) if statistic.adds_up else None
    if statistic.adds_up:
        for one, other in zip(tree_leaves(merged), tree_leaves(summed), strict=True):
            assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    else:
        assert statistic.keeps_all
