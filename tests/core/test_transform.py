"""Chains compose, and refuse what cannot follow each other."""

import pytest
import torch
from askew.core.transform import Context, Plan, Transform, chain, check_order, norm
from hypothesis import given
from hypothesis import strategies as st

from askew.core import registry, rng
from askew.core.errors import AskewError
from askew.engine.batched import BatchedStep
from askew.pieces.client import add_proximal, clip_gradient, project_to_ball, sgd
from askew.pieces.server import evaluate_average, mean, momentum, quantize, scale


def context(**w):
    params = {name: torch.tensor(value) for name, value in w.items()}
    return Context(params=params, start=params, round=0, key=rng.key(0, "test"))


def plus(amount: float) -> Transform:
    return Transform(lambda u, state, ctx: ({k: v + amount for k, v in u.items()}, state))


def counting() -> Transform:
    return Transform(lambda u, state, ctx: (u, state + 1), init=lambda params: torch.tensor(0))


def run(transform, u, rounds=1):
    ctx = context(w=0.0)
    state = transform.init(ctx.params)
    for _ in range(rounds):
        out, state = transform.update({"w": torch.tensor(u)}, state, ctx)
    return float(out["w"]), state


def test_pieces_act_in_order():
    assert run(chain(scale(2.0), plus(1.0)), 3.0)[0] == 7.0
    assert run(chain(plus(1.0), scale(2.0)), 3.0)[0] == 8.0


def test_state_is_kept_piece_by_piece():
    _, state = run(chain(counting(), scale(1.0), counting()), 1.0, rounds=3)
    assert [int(state[0]), state[1], int(state[2])] == [3, (), 3]


def test_the_empty_chain_changes_nothing():
    assert run(chain(), 5.0)[0] == 5.0


@given(st.lists(st.tuples(st.booleans(), st.integers(-8, 8)), max_size=6), st.integers(0, 6), st.integers(-100, 100))
def test_chaining_is_associative(steps, cut, u):
    """chain(a, b, c) = chain(chain(a, b), c) for any cut; whole numbers keep the arithmetic exact."""
    pieces = [scale(float(abs(n))) if doubles else plus(float(n)) for doubles, n in steps]
    cut = min(cut, len(pieces))
    whole = run(chain(*pieces), float(u))[0]
    assert run(chain(chain(*pieces[:cut]), chain(*pieces[cut:])), float(u))[0] == whole
    by_hand = float(u)
    for doubles, n in steps:
        by_hand = by_hand * abs(n) if doubles else by_hand + n
    assert whole == by_hand


def test_the_view_is_the_last_pieces_that_has_one():
    viewing = Transform(lambda u, state, ctx: (u, state), view=lambda params, state: {"w": params["w"] + 1})
    assert float(chain(scale(1.0), viewing).view({"w": torch.tensor(1.0)}, ((), ()))["w"]) == 2.0


def test_a_chain_declares_what_its_pieces_declare():
    composed = chain(mean("uniform"), quantize(8), momentum(0.5))
    assert composed.weigh is not None
    assert composed.weigh(torch.tensor([3.0, 9.0]), torch.tensor([0.0, 0.0])).tolist() == [1.0, 1.0]
    assert composed.payload is not None
    assert composed.payload({"w": torch.zeros(10)}) == 10 + 4
    assert chain(mean()).payload is None


def with_one(**fields) -> Transform:
    return Transform(lambda u, state, ctx: (u, state), **fields)


def test_a_chain_acts_by_coordinates_where_all_its_pieces_do():
    """Engines then run it on stacked tensors as they are; with `vmap` the same numbers take longer, so only this shows it."""
    by_coordinate, across = with_one(elementwise=True), with_one()
    assert chain(by_coordinate).elementwise
    assert chain(by_coordinate, by_coordinate).elementwise
    assert not chain(by_coordinate, across).elementwise
    assert not chain(across, by_coordinate).elementwise
    assert chain(add_proximal(0.1), sgd(0.1, momentum=0.9)).elementwise
    assert not chain(clip_gradient(1.0), sgd(0.1)).elementwise


def test_a_step_by_coordinates_needs_no_vmap(monkeypatch):
    monkeypatch.setattr(torch.func, "vmap", lambda *args, **kwargs: pytest.fail("vmap"))
    stacked = {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    step = BatchedStep([registry.parse("client", text) for text in ("add_proximal(0.5)", "sgd(lr=0.1)")])
    u, _ = step.update(stacked, ((), ()), stacked, {"w": torch.zeros(1, 2)}, 0, torch.zeros(2, dtype=torch.int64), 0)
    torch.testing.assert_close(u["w"], -0.1 * 1.5 * stacked["w"])  # g + 0.5 (w - 0), g = w


def test_every_other_declaration_of_a_chain():
    """Each from one piece of two, in either place; the last piece that changes the bytes on the wire counts."""
    plain = with_one()
    for pieces in ([plain, with_one(random=True)], [with_one(random=True), plain]):
        assert chain(*pieces).random
    assert not chain(plain, plain).random
    assert chain(with_one(needs=frozenset({"signs"})), with_one(needs=frozenset({"other"}))).needs == {"signs", "other"}
    assert chain(plain, with_one(acts_on="source")).acts_on == "source"
    assert chain(plain).acts_on == "update"
    small, large = with_one(payload=lambda model: 1), with_one(payload=lambda model: 9)
    assert chain(small, large, plain).payload({}) == 9
    assert chain(large, small).payload({}) == 1
    in_place = with_one(in_place=lambda params, u, ctx: None)
    assert chain(in_place).in_place is in_place.in_place
    assert chain(in_place, plain).in_place is None
    assert chain(plain, in_place).in_place is None
    assert chain().in_place is None


def test_views_follow_each_other():
    """(1 + 1) * 3, and (1 * 3) + 1."""
    plus_one = with_one(view=lambda params, state: {"w": params["w"] + 1})
    threefold = with_one(view=lambda params, state: {"w": params["w"] * 3})
    for pieces, expected in (([plus_one, threefold], 6.0), ([threefold, plus_one], 4.0)):
        assert float(chain(*pieces).view({"w": torch.tensor(1.0)}, ((), ()))["w"]) == expected


def test_a_check_is_told_what_stands_before_and_behind():
    told = []
    asking = with_one(check=lambda plan: told.append((plan.before, plan.after, plan.cohort_size)))
    chain(scale(1.0), asking, momentum(0.5), quantize(8)).check(Plan(cohort_size=7))
    assert told == [(("scale",), ("momentum", "quantize"), 7)]


@pytest.mark.parametrize(("pieces", "message"), [
    ([sgd(0.1), clip_gradient(1.0)], "clip_gradient acts on the gradient; put it before sgd"),
    ([project_to_ball(1.0), sgd(0.1)], "project_to_ball acts on an update; put it after sgd"),
    ([sgd(0.1), sgd(0.2)], "sgd and sgd both make the update"),
    ([clip_gradient(1.0)], "no piece makes an update; add one, such as sgd"),
])
def test_steps_that_make_no_sense_are_refused(pieces, message):
    with pytest.raises(AskewError, match=message):
        check_order(pieces, "step", "sgd(lr=0.1)")
    check_order([clip_gradient(1.0), sgd(0.1), project_to_ball(1.0)], "step", "sgd(lr=0.1)")


@pytest.mark.parametrize(("pieces", "message"), [
    ([momentum(0.5)], "no piece makes an update"),
    ([mean(), mean("uniform")], "mean and mean both make the update"),
    ([momentum(0.5), mean()], "momentum acts on an update; put it after mean"),
    ([evaluate_average(), mean()], "put it after mean"),
])
def test_chains_that_make_no_sense_are_refused(pieces, message):
    with pytest.raises(AskewError, match=message):
        check_order(pieces, "server", "mean()")


def test_norm_is_over_all_tensors_together():
    assert float(norm({"a": torch.tensor([3.0, 0.0]), "b": torch.tensor(4.0)})) == 5.0
