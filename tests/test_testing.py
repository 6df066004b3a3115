"""`askew.testing.check_piece`: pieces that are right pass, and each wrong one fails with a line that says why."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from conform.pieces import UNEQUAL

import askew
from askew.pieces.client import adam, correct_drift
from askew.pieces.server import momentum, update_control
from askew.testing import can_compile, check_piece


def wrong(pattern, piece, beside=()):
    with pytest.raises(AssertionError) as caught:
        check_piece(piece, beside, compiled=False)
    message = str(caught.value)
    assert message.startswith(f"{piece.name}: "), message
    assert "\n" not in message
    assert caught.match(pattern)


@pytest.mark.slow
@pytest.mark.parametrize(("piece", "beside"), [(adam(0.01, keep_state=True), []), (correct_drift(), [update_control()]),
                                               (momentum(0.9), []), ("clip_gradient(length=0.5)", [])], ids=str)
def test_pieces_that_are_right_pass(piece, beside):
    check_piece(piece, beside, recipe=UNEQUAL, compiled=False)


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(),
                    reason="torch compiles for CPUs with g++ and Python's headers, which are not installed")
def test_it_compiles_where_there_is_a_compiler():
    check_piece(adam(0.01, keep_state=True), recipe=UNEQUAL)


@askew.piece("client")
def halves_in_place() -> askew.OnGradient:
    return askew.OnGradient(update=lambda u, state, ctx: ({name: g.mul_(0.5) for name, g in u.items()}, state))


def test_a_piece_that_changes_its_input():
    wrong(r"`update` of client \d in round 1 changes what it is given", halves_in_place())


@askew.piece("client")
def pulls_the_weights_in_place() -> askew.OnGradient:
    def update(u, state, ctx):
        for v in ctx.params.values():
            v.clamp_(-0.01, 0.01)
        return u, state

    return askew.OnGradient(update=update)


def test_a_piece_that_changes_the_weights():
    wrong("`update` of client .* changes what it is given", pulls_the_weights_in_place())


@askew.piece("client")
def looks_at_a_value() -> askew.OnGradient:
    def update(u, state, ctx):
        if sum(g.sum() for g in u.values()) > 0:
            return {name: 2 * g for name, g in u.items()}, state
        return u, state

    return askew.OnGradient(update=update)


def test_a_python_branch_on_the_value_of_a_tensor():
    wrong("all at once: .*data-dependent control flow", looks_at_a_value())


@askew.piece("client")
def adds_the_one_before() -> askew.OnGradient:
    before = {}

    def update(u, state, ctx):
        made = {name: g + before.get(name, 0) for name, g in u.items()}
        before.update(u)
        return made, state

    return askew.OnGradient(update=update)


def test_a_piece_that_keeps_something_for_itself():
    wrong("`update` of client .* gives two results for the same inputs; keep nothing outside its state",
          adds_the_one_before())


@askew.piece("client")
def adds_the_first_clients() -> askew.ClientPiece:
    first = {}

    def end(message, state, kept, ctx):
        made = first.setdefault(int(ctx.round), message["update"])
        return {**message, "update": {name: 0.5 * u + 0.5 * made[name] for name, u in message["update"].items()}}, kept

    return askew.ClientPiece(end=end)


def test_a_piece_that_mixes_clients():
    """The same twice, so that only another order shows it."""
    wrong(r"in reverse order: round 1, client \d, message: update \S+ is \S+ of its length apart "
          r"from one client after the other", adds_the_first_clients())


@askew.piece("client")
def draws_by_itself() -> askew.OnGradient:
    return askew.OnGradient(
        update=lambda u, state, ctx: ({name: g + 0.01 * torch.randn_like(g) for name, g in u.items()}, state))


def test_a_piece_that_draws_from_a_global_stream():
    wrong("gives two results for the same inputs; .*draw from ctx.key alone", draws_by_itself())


@askew.piece("client")
def grows_its_memory() -> askew.ClientPiece:
    return askew.ClientPiece(keep=lambda model: {"seen": torch.zeros(1)},
                             end=lambda message, state, kept, ctx: (
                                 message, {"seen": torch.cat([kept["seen"], torch.ones(1)])}))


def test_memory_that_changes_its_shape():
    wrong(r"`end` of client .* makes the memory's seen float32 \[2\] of float32 \[1\]", grows_its_memory())


@askew.piece("client")
def sends_without_a_word() -> askew.ClientPiece:
    return askew.ClientPiece(end=lambda message, state, kept, ctx: ({**message, "extra": torch.zeros(1)}, kept))


def test_an_entry_of_the_message_that_was_not_declared():
    wrong(r"adds 'extra' to the message; say so: sends=\['extra'\]", sends_without_a_word())


@askew.piece("client")
def needs_a_plain_number(strength: float = 0.5) -> askew.OnGradient:
    return askew.OnGradient(
        update=lambda u, state, ctx: ({name: g * (2.0 if strength > 0.4 else 1.0) for name, g in u.items()}, state))


def test_a_number_that_cannot_be_a_tensor():
    wrong("strength = 0.5, 0.25, 0.375, 0.45 together: .*data-dependent control flow", needs_a_plain_number(0.5))


@askew.piece("server")
def scales_in_place() -> askew.ServerPiece:
    return askew.ServerPiece(lambda u, state, ctx: ({name: v.mul_(0.5) for name, v in u.items()}, state))


def test_a_server_piece_that_changes_its_input():
    wrong("`update` changes what it is given", scales_in_place())


@askew.piece("server")
def counts_in_python() -> askew.ServerPiece:
    return askew.ServerPiece(lambda u, state, ctx: (u, {"rounds": state["rounds"] + 1}),
                             init=lambda params: {"rounds": 0})


def test_state_that_is_no_tensor():
    wrong("`init` holds 0; state and memory are tensors", counts_in_python())


@dataclass(frozen=True)
class Last(askew.Statistic):
    """The update of whoever came last."""

    def add(self, total, message, senders):
        return {name: v[-1].clone() for name, v in message["update"].items()}

    def merge(self, a, b):
        return b

    def value(self, total):
        return total


@askew.piece("server")
def follow_the_last() -> askew.Aggregator:
    return askew.Aggregator(lambda u, state, ctx: (dict(ctx.cohort[Last()]), state), needs=[Last()])


def test_a_statistic_that_hangs_on_the_order_of_clients():
    wrong(r"in reverse order: round 1, the server's model: \S+ is \S+ of its length apart", follow_the_last())


@askew.piece("server")
def remembers_outside() -> askew.ServerPiece:
    """Right in every form, and the same twice, but not after a break: what it saw in round 1 is lost."""
    seen = {}

    def update(u, state, ctx):
        seen.setdefault(ctx.round, {name: v.clone() for name, v in u.items()})
        return {name: v + 0.5 * seen.get(ctx.round - 1, u)[name] for name, v in u.items()}, state

    return askew.ServerPiece(update)


@askew.piece("server")
def counts_in_a_deque() -> askew.ServerPiece:
    return askew.ServerPiece(lambda u, state, ctx: (u, deque([state[0] + 1])),
                             init=lambda params: deque([torch.zeros(())]))


def test_state_of_a_type_that_no_checkpoint_holds():
    wrong("server counts_in_a_deque keeps a collections.deque between rounds, which no checkpoint can hold",
          counts_in_a_deque())


def test_state_that_no_checkpoint_holds():
    wrong("a run that goes on from a checkpoint gives another result; keep all that lasts in state or memory",
          remembers_outside())


def test_the_example_of_the_page():
    page = (Path(__file__).parents[1] / "docs" / "testing.md").read_text(encoding="utf-8")
    names = {"__name__": "docs.testing"}
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert callable(names["test_shrink_gradient"])
    check_piece(names["shrink_gradient"](0.25), compiled=False)


def test_a_piece_that_does_not_know_how_it_was_made_is_refused(refused):
    with refused("put @askew.piece"):
        check_piece(askew.ClientPiece())
    with refused("check_piece: piece must be ClientPiece or ServerPiece or str, not 3"):
        check_piece(3)
