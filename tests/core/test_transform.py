"""Chains compose, and refuse what cannot follow each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from askew.core import rng
from askew.core.errors import AskewError
from askew.core.transform import Context, Transform, chain, check_order, norm
from askew.server import evaluate_average, mean, momentum, quantize, scale


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
