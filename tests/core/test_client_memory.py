"""Rows of memory: who remembers what, however many there are, through copies, deletions and checkpoints."""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import askew
from askew.core.client_memory import ClientMemory
from askew.core.tensors import ModelState

FIRST = 0.25  # what all begin with


def memory():
    """A number per client, and a vector that follows from it: whatever happens, both belong together."""
    return ClientMemory(lambda model: {"n": torch.full((), FIRST), "v": ({"twice": 2 * FIRST * torch.ones(2)},)},
                        ModelState({}))


def rows(*numbers):
    n = torch.tensor(numbers)
    return {"n": n, "v": ({"twice": 2 * n[:, None] * torch.ones(2)},)}


def numbers(tree):
    assert torch.equal(tree["v"][0]["twice"], 2 * tree["n"][..., None] * torch.ones(2))
    return tree["n"].tolist()


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_who_has_not_taken_part_has_what_all_begin_with():
    table = memory()
    assert numbers(table.rows(0, [5, 1])) == [FIRST, FIRST]
    table.put(0, [3, 1], rows(3.0, 1.0))
    assert numbers(table.rows(0, [1, 2, 3])) == [1.0, FIRST, 3.0]
    assert numbers(table.row(0, 3)) == 3.0
    assert numbers(table.rows(1, [1, 3])) == [FIRST, FIRST]  # of another model


def test_one_that_takes_part_again_has_its_own_row():
    table = memory()
    table.put(0, [3, 1], rows(3.0, 1.0))
    table.put(0, [1, 2], rows(10.0, 2.0))
    assert numbers(table.rows(0, [1, 2, 3])) == [10.0, 2.0, 3.0]


def test_what_is_read_does_not_change_with_what_is_written():
    table = memory()
    table.put(0, [1], rows(1.0))
    one, several = table.row(0, 1), table.rows(0, [1, 2])
    table.put(0, [1, 2], rows(7.0, 8.0))
    assert (numbers(one), numbers(several)) == (1.0, [1.0, FIRST])
    several["n"] += 100
    one["n"] += 100
    assert numbers(table.rows(0, [1, 2, 9])) == [7.0, 8.0, FIRST]


def test_clones_go_on_by_themselves_and_what_is_forgotten_is_gone():
    table = memory()
    table.put(0, [1, 2], rows(1.0, 2.0))
    table.clone(0, 4)
    table.put(4, [2, 3], rows(20.0, 30.0))
    assert numbers(table.rows(0, [1, 2, 3])) == [1.0, 2.0, FIRST]
    assert numbers(table.rows(4, [1, 2, 3])) == [1.0, 20.0, 30.0]
    table.forget(0)
    assert (numbers(table.rows(0, [1, 2, 3])), numbers(table.rows(4, [1, 2, 3]))) == ([FIRST] * 3, [1.0, 20.0, 30.0])
    table.put(7, [1], rows(70.0))  # in a row that was freed
    assert (numbers(table.rows(4, [1, 2, 3])), numbers(table.rows(7, [1]))) == ([1.0, 20.0, 30.0], [70.0])


def rows_in(table):
    return sum(len(block["rows"][0]) for block in table.state["blocks"].values())


def test_it_grows_with_those_who_take_part_only():
    table = memory()
    table.put(0, [10**9], rows(1.0))
    assert rows_in(table) == 2
    table.put(0, list(range(300)), rows(*map(float, range(300))))
    assert rows_in(table) == 302
    assert numbers(table.rows(0, [299, 0, 10**9])) == [299.0, 0.0, 1.0]
    for model in range(1, 50):  # models that come and go take the rows of those that went
        table.clone(0, model)
        table.forget(model)
    assert rows_in(table) == 302


def test_nothing_to_remember():
    table = ClientMemory(lambda model: ((), ()), ModelState({"w": torch.zeros(3)}))
    assert not table
    assert table.bytes_per_client == 0
    table.forget(0)
    assert memory()


def test_bytes_by_hand():
    """A momentum of 10 weights of 4 bytes and a counter of 8."""
    table = ClientMemory(lambda model: (model.params, torch.tensor(0)), ModelState({"w": torch.zeros(10)}))
    assert table.bytes_per_client == 48


def test_types_are_kept():
    table = ClientMemory(lambda model: torch.tensor(0), ModelState({}))
    table.put(0, [1], torch.tensor([3]))
    assert table.row(0, 1).dtype == torch.int64
    assert table.row(0, 1) == 3
    # It would be cut, spread or lost.
    for other in (torch.tensor([3.5]), torch.tensor([[3]]), {"n": torch.tensor([3])}, ()):
        with pytest.raises(askew.AskewError, match="returns memory of another form than its `keep`"):
            table.put(0, [1], other)


@pytest.mark.parametrize("clients", [0, 1, 5])
def test_a_checkpoint_holds_it(clients):
    table = memory()
    if clients:
        table.put(2, list(range(clients)), rows(*map(float, range(clients))))
    again = memory()
    again.put(0, [8], rows(8.0))  # replaced
    again.state = through_a_file(table.state)
    assert numbers(again.rows(2, list(range(7)))) == [*map(float, range(clients)), *[FIRST] * (7 - clients)]
    assert numbers(again.rows(0, [8])) == [FIRST]
    again.put(2, [0, 20], rows(50.0, 60.0))
    assert numbers(again.rows(2, [0, 20, 21])) == [50.0, 60.0, FIRST]
    assert numbers(table.rows(2, [0, 20])) == [0.0 if clients else FIRST, FIRST]


models, clients = st.integers(0, 3), st.integers(0, 9)
put = st.tuples(st.just("put"), models, st.lists(clients, min_size=1, unique=True))
clone = st.tuples(st.just("clone"), models, st.none())
forget = st.tuples(st.just("forget"), models, st.none())
resume = st.tuples(st.just("resume"), st.none(), st.none())


@settings(deadline=None)
@given(st.lists(st.one_of(put, put, clone, forget, resume), max_size=25))
def test_it_is_a_dictionary(actions):
    """Any course of events, against a plain dict."""
    table, plain, count, children = memory(), {}, 0.0, 4
    for action, model, who in actions:
        if action == "put":
            values = [count + i for i in range(len(who))]
            count += len(who)
            table.put(model, who, rows(*values))
            plain |= {(model, client): value for client, value in zip(who, values, strict=True)}
        elif action == "clone":
            table.clone(model, children)
            plain |= {(children, client): value for (m, client), value in plain.items() if m == model}
            children += 1
        elif action == "forget":
            table.forget(model)
            plain = {at: value for at, value in plain.items() if at[0] != model}
        else:
            saved = through_a_file(table.state)
            table = memory()
            table.state = saved
        for m in range(children):
            assert numbers(table.rows(m, range(10))) == [plain.get((m, client), FIRST) for client in range(10)]


def test_changes_are_what_is_new_since_they_were_asked_for():
    """What one process tells another of its clients: the copy has the same rows, whatever happened between."""
    mine, copy = memory(), memory()

    def tell():
        for model, clients, values in mine.changes():
            copy.put(model, clients, values)

    mine.put(0, [1, 3], rows(1.0, 3.0))
    tell()
    assert numbers(copy.rows(0, [1, 2, 3])) == [1.0, FIRST, 3.0]
    assert mine.changes() == []
    mine.put(0, [3], rows(5.0))
    mine.put(2, [4], rows(7.0))
    for both in (mine, copy):
        both.clone(0, 1)  # of the copy's, client 3 is old news
        both.forget(2)
    tell()
    assert numbers(copy.rows(1, [1, 3])) == [1.0, 5.0]
    assert numbers(copy.rows(2, [4])) == [FIRST]


def test_keep_only_some():
    mine = memory()
    mine.put(0, [0, 1, 2, 3], rows(0.0, 1.0, 2.0, 3.0))
    mine.keep_only(lambda client: client % 2 == 1)
    assert numbers(mine.rows(0, [0, 1, 2, 3])) == [FIRST, 1.0, FIRST, 3.0]
    mine.put(0, [5], rows(5.0))
    assert numbers(mine.rows(0, [1, 3, 5])) == [1.0, 3.0, 5.0]
