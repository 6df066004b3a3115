"""Chains of client and of server pieces: order, states, memories, and refusals of what cannot follow each other."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from askew.core.by_hand import client_context, server_context
from askew.core.client_piece import ClientChain, ClientContext, ClientPiece, OnGradient, OnUpdate, Optimiser, Plan
from askew.core.errors import AskewError
from askew.core.server_piece import Aggregator, ServerChain, ServerPiece
from askew.core.statistic import Senders
from askew.core.tensors import ModelState, norm
from askew.pieces.client import clip_gradient, project_to_ball, sgd
from askew.pieces.client import quantize as quantize_upload
from askew.pieces.server import evaluate_average, mean, momentum, quantize, scale
from askew.pieces.statistic import Everything, MeanOf, SignSum


def plus(amount: float) -> ServerPiece:
    return ServerPiece(lambda u, state, ctx: ({k: v + amount for k, v in u.items()}, state))


def counting() -> ServerPiece:
    return ServerPiece(lambda u, state, ctx: (u, state + 1), init=lambda params: torch.tensor(0))


def watching(**fields) -> ServerPiece:
    return ServerPiece(lambda u, state, ctx: (u, state), **fields)


def run(pieces, u, rounds=1):
    chain, ctx = ServerChain(pieces), server_context([(0.0,)])
    state = chain.init(ctx.params)
    for _ in range(rounds):
        out, state = chain.update({"w": torch.tensor([u])}, state, ctx)
    return float(out["w"]), state


def test_server_pieces_act_in_order():
    assert run([scale(2.0), plus(1.0)], 3.0)[0] == 7.0
    assert run([plus(1.0), scale(2.0)], 3.0)[0] == 8.0


def test_state_is_kept_piece_by_piece():
    _, state = run([counting(), scale(1.0), counting()], 1.0, rounds=3)
    assert [int(state[0]), state[1], int(state[2])] == [3, (), 3]


def test_the_empty_chain_changes_nothing():
    assert run([], 5.0)[0] == 5.0
    ctx, message = client_context([1.0]), {"update": {"w": torch.ones(1)}}
    chain = ClientChain([])
    assert (chain.keep({}), chain.begin((), ctx), chain.enter(message, ()), chain.end(message, (), (), ctx)) == (
        (), (), message, (message, ()))
    assert (chain.enters, chain.ends, chain.payload) == (False, False, None)


@given(st.lists(st.tuples(st.booleans(), st.integers(-8, 8)), max_size=6), st.integers(0, 6), st.integers(-100, 100))
def test_a_chain_may_be_cut_anywhere(steps, cut, u):
    """Two chains one after the other are the whole one, for any cut; whole numbers keep the arithmetic exact."""
    pieces = [scale(float(abs(n))) if doubles else plus(float(n)) for doubles, n in steps]
    whole = run(pieces, float(u))[0]
    assert run(pieces[cut:], run(pieces[:cut], float(u))[0])[0] == whole
    by_hand = float(u)
    for doubles, n in steps:
        by_hand = by_hand * abs(n) if doubles else by_hand + n
    assert whole == by_hand


def test_views_follow_each_other():
    """(1 + 1) * 3, and (1 * 3) + 1."""
    plus_one = watching(view=lambda params, state: {"w": params["w"] + 1})
    threefold = watching(view=lambda params, state: {"w": params["w"] * 3})
    for pieces, expected in (([plus_one, threefold], 6.0), ([threefold, plus_one], 4.0), ([scale(1.0), plus_one], 2.0)):
        assert float(ServerChain(pieces).view({"w": torch.tensor(1.0)}, ((), ()))["w"]) == expected


def test_a_server_chain_says_what_its_pieces_say():
    """How clients count, bytes on the wire (the last piece that changes them counts), statistics, equal ones once."""
    composed = ServerChain([mean("uniform"), quantize(8), momentum(0.5)])
    senders = Senders([0, 1], torch.tensor([3.0, 9.0]), *[torch.tensor([0.0, 0.0])] * 3)
    assert composed.weigh(senders).tolist() == [1.0, 1.0]
    plain = ServerChain([Aggregator(lambda u, state, ctx: (ctx.cohort.mean, state))])
    assert plain.weigh(senders).tolist() == [3.0, 9.0]
    assert composed.payload({"w": torch.zeros(10)}) == 10 + 4
    assert ServerChain([mean()]).payload is None
    small, large = watching(payload=lambda model: 1), watching(payload=lambda model: 9)
    assert ServerChain([small, large, watching()]).payload({}) == 9
    assert ServerChain([large, small]).payload({}) == 1
    chain = ServerChain([watching(needs=[SignSum()]), watching(needs=[Everything(), SignSum()]),
                         watching(needs=[MeanOf("c")])])
    assert chain.needs == {SignSum(), Everything(), MeanOf("c")}


def test_what_the_server_sends_comes_from_each_pieces_own_state():
    sending = watching(init=lambda params: torch.tensor(7.0), broadcast=lambda state: {"control": {"w": state}})
    also = watching(init=lambda params: torch.tensor(2.0), broadcast=lambda state: {"rate": state})
    chain = ServerChain([mean(), sending, also])
    assert chain.broadcasts
    assert chain.broadcast(chain.init({})) == {"control": {"w": torch.tensor(7.0)}, "rate": torch.tensor(2.0)}
    assert not ServerChain([mean()]).broadcasts
    assert ServerChain([mean()]).broadcast(((),)) == {}


def step_counter(name: str, amount: float = 1.0) -> ClientPiece:
    """Remembers how many steps it has seen in all rounds, in its own units, and tells under a name of its own."""

    def end(message, state, kept, ctx):
        return {**message, name: state}, state

    return ClientPiece(lambda u, state, ctx: ({k: v * 2 for k, v in u.items()}, state + amount),
                       keep=lambda params: torch.tensor(0.0),
                       enter=lambda tensors, kept: {k: v + amount for k, v in tensors.items()},
                       begin=lambda kept, ctx: kept + 0.5, end=end)


def test_a_clients_round_goes_through_all_pieces_with_memories_of_their_own():
    """begin adds 0.5 to the memory, each of two steps 1 (or 10); what the first piece hands on, the next is given."""
    chain, ctx = ClientChain([step_counter("ones"), sgd(1.0), step_counter("tens", 10.0)]), client_context([1.0])
    assert (chain.enters, chain.ends) == (True, True)
    kept = chain.keep(ModelState(ctx.start))
    for before in (0.0, 2.5):  # and 2 * 10 + 0.5 for the other
        assert float(kept[0]) == before
        assert chain.enter({"w": torch.tensor(1.0)}, kept)["w"].item() == 12.0
        state = chain.begin(kept, ctx)
        for _ in range(2):
            u, state = chain.update({"w": torch.tensor([3.0])}, state, ctx)
            assert u["w"].tolist() == [-12.0]  # twice, turned round, twice
        message, kept = chain.end({"update": u}, state, kept, ctx)
        assert list(message) == ["update", "ones", "tens"]
        assert float(message["ones"]) == before + 2.5
    assert (float(kept[0]), kept[1], float(kept[2])) == (5.0, (), 41.0)


def test_the_optimiser_alone_is_what_the_server_trains_with():
    chain = ClientChain([clip_gradient(1.0), sgd(0.5), project_to_ball(1.0), quantize_upload(8)])
    assert [p.name for p in chain.optimiser.pieces] == ["sgd"]
    assert chain.payload({"w": torch.zeros(10)}) == 14


def test_a_chain_knows_whether_anything_happens_at_its_ends():
    """Engines leave out what no piece does; rounds of plain SGD would otherwise pay for it."""
    plain = ClientChain([clip_gradient(1.0), sgd(0.1, momentum=0.9), project_to_ball(1.0), quantize_upload(32)])
    assert (plain.enters, plain.ends) == (False, False)
    assert ClientChain([sgd(0.1, momentum=0.9, keep_momentum=True)]).ends
    assert ClientChain([sgd(0.1), quantize_upload(8)]).ends
    assert ClientChain([ClientPiece(enter=lambda tensors, kept: tensors)]).enters


def test_a_key_where_there_is_no_stream_is_refused():
    with pytest.raises(AskewError,
                       match=r"asks for ctx.key in `begin`, where there is none; draw in `update`.*make_key="):
        _ = ClientContext({}, {}, 0).key
    assert ClientContext({}, {}, 0, make_key=lambda: torch.tensor(5)).key == 5


@pytest.mark.parametrize("build",
                         [lambda asking: ServerChain([mean(), asking(ServerPiece), momentum(0.5), evaluate_average()]),
                          lambda asking: ClientChain([sgd(0.1), asking(ClientPiece), project_to_ball(1.0),
                                                      quantize_upload(8)])])
def test_a_check_is_told_what_stands_before_and_behind(build):
    told = []

    def asking(kind):
        return replace(kind(lambda u, state, ctx: (u, state)),
                       check=lambda plan: told.append(([p.name for p in plan.before], [p.name for p in plan.after],
                                                       plan.cohort_size)))

    build(asking).check(Plan(cohort_size=7))
    assert told in ([(["mean"], ["momentum", "evaluate_average"], 7)], [(["sgd"], ["project_to_ball", "quantize"], 7)])


@pytest.mark.parametrize(("pieces", "message"), [
    ([sgd(0.1), clip_gradient(1.0)], "client: clip_gradient acts on the gradient; put it before sgd"),
    ([project_to_ball(1.0), sgd(0.1)], "client: project_to_ball acts on an update; put it after sgd"),
    ([sgd(0.1), sgd(0.2)], "client: sgd and sgd both make the update; keep one of them"),
    ([clip_gradient(1.0)], r"client: no piece makes an update; add one, such as sgd\(lr=0.1\)"),
    ([], "client: no piece makes an update"),
    ([Optimiser(), OnGradient()], "client: OnGradient acts on the gradient; put it before Optimiser"),
    ([OnUpdate(), Optimiser()], "client: OnUpdate acts on an update; put it after Optimiser"),
    ([sgd(0.1), quantize_upload(8), ClientPiece(end=step_counter("n").end)],
     "quantize must come last: what ClientPiece adds behind it"),
])
def test_client_chains_that_make_no_sense_are_refused(pieces, message):
    with pytest.raises(AskewError, match=message):
        ClientChain(pieces).check(Plan())


def test_client_chains_that_make_sense():
    ClientChain([clip_gradient(1.0), sgd(0.1), project_to_ball(1.0)]).check(Plan())
    ClientChain([ClientPiece(), sgd(0.1), ClientPiece()]).check(Plan())  # where such a one stands does not matter
    # It leaves the upload as it is.
    ClientChain([ClientPiece(), sgd(0.1), quantize_upload(8), ClientPiece()]).check(Plan())


@pytest.mark.parametrize(("pieces", "message"), [
    ([momentum(0.5)], r"server: no piece makes an update; add one, such as mean\(\)"),
    ([mean(), mean("uniform")], "server: mean and mean both make the update; keep one of them"),
    ([momentum(0.5), mean()], "server: momentum acts on an update; put it after mean"),
    ([evaluate_average(), mean()], "put it after mean"),
])
def test_server_chains_that_make_no_sense_are_refused(pieces, message):
    with pytest.raises(AskewError, match=message):
        ServerChain(pieces).check(Plan())


def test_norm_is_over_all_tensors_together():
    assert float(norm({"a": torch.tensor([3.0, 0.0]), "b": torch.tensor(4.0)})) == 5.0
