"""One table over all pieces and engines: what every one of them must do, and none may be missing from it."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from conform.pieces import PIECES, RECIPES, UNEQUAL

import askew
from askew.core import registry, rng
from askew.core.client_piece import ClientChain, ClientContext
from askew.core.cohort import Cohort
from askew.core.compat import tree_leaves, tree_map
from askew.core.server_piece import ServerContext
from askew.core.statistic import Senders
from askew.core.tensors import ModelState, add, subtract
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.choice import ENGINES
from askew.engine.traits import traits_of
from askew.pieces.methods import projected
from askew.pieces.statistic import Everything, MeanLoss, MeanOf, MeanPerStep, SignSum

CLIENT, SERVER = ([call for calls in PIECES[kind].values() for call in calls] for kind in ("client", "server"))
OWN = ["adam_from_one()", "pull_to_first()", "step_by_count()", "step_by_rounds()", "pull_by_count()",
       "with_a_rate_that_is_kept()", "subtract_control()", "stay_at_home(part='a')", "by_facts()", "begin_by_facts()",
       "tell()", "pull_to_shared()"]
LOCAL = [*CLIENT, *OWN]
SHAPES = {"a": (2, 3), "b": (4,), "c": ()}
WITHOUT_SCALARS = {"a": (2, 3), "b": (4,)}


def test_no_kind_is_missing_from_the_table():
    assert set(PIECES) == set(registry.KINDS)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_no_piece_is_missing_from_the_table(kind):
    ours = {name for name in registry.names(kind) if registry.find(kind, name).__module__.startswith("askew.")}
    assert ours == set(PIECES[kind])
    for name, calls in PIECES[kind].items():
        assert calls
        assert all(registry.parse(kind, call).name == name for call in calls)


def tensors(seed, clients=None, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    lead = () if clients is None else (clients,)
    return {name: torch.randn((*lead, *shape), generator=generator) for name, shape in shapes.items()}


def shared(shapes=SHAPES):
    return {"control": tensors(40, shapes=shapes), "average": tensors(41, shapes=shapes), "rounds": torch.tensor(2.0),
            "factor": torch.tensor(0.5)}


def client_context(round=0, step=0, params=None, **rest):
    """A model that has moved from its start, and something from the server."""
    params = tensors(1) if params is None else params
    return ClientContext(params, tensors(2), round, step, steps=2, client=3, examples=20, shared=shared(),
                         **{"make_key": lambda: rng.key(0, "conformance", round, step), **rest})


def server_context(round=0, params=None, **rest):
    """A cohort of three, training of the server's own."""
    sent = {"update": tensors(10 + round, clients=3), "buffers": {}, "control": tensors(12 + round, clients=3)}
    needs = [SignSum(), Everything(), MeanLoss(), MeanOf("control"), MeanPerStep(), MeanPerStep(0.5)]
    cohort, ones = Cohort(tensors(0), needs), torch.ones(3)
    cohort.add(sent, Senders([4, 7, 9], ones, ones, ones, ones), torch.tensor([1.0, 2.0, 3.0]))
    return ServerContext(**{"params": tensors(1) if params is None else params, "round": round, "clients": 9,
                            "cohort": cohort, "key": rng.key(0, "conformance", round),
                            "train": lambda model, epochs: {name: 0.9**epochs * v for name, v in model.items()},
                            **rest})


def same(one, other):
    """Equal trees, bit for bit."""
    mine, theirs = tree_leaves(one), tree_leaves(other)
    return len(mine) == len(theirs) and all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def shapes_of(model):
    return {name: tuple(v.shape) for name, v in model.items()}


def client_rounds(piece, rounds, kept=None, first=0, **rest):
    """(updates, message) of each of a client's rounds of two steps, and what it remembers after them."""
    kept, seen = piece.keep(ModelState(tensors(2))) if kept is None else kept, []
    for round in range(first, first + rounds):
        entered = piece.enter(ModelState(tensors(2)), kept)
        assert shapes_of(entered.params) == SHAPES
        state, updates = piece.begin(kept, client_context(round, **rest)), []
        for step in range(2):
            u, state = piece.update(tensors(20 + round + step), state, client_context(round, step, **rest))
            updates.append(u)
        message, kept = piece.end({"update": tensors(30 + round), "buffers": {}}, state, kept,
                                  client_context(round, 2, **rest))
        seen.append((updates, message))
    return seen, kept


def server_rounds(piece, rounds, state=None, first=0, **rest):
    """The updates of some rounds, and the state after them."""
    params, updates = tensors(1), []
    state = piece.init(params) if state is None else state
    for round in range(first, first + rounds):
        u, state = piece.update(tensors(20 + round), state, server_context(round, params, **rest))
        updates.append(u)
    return updates, state


def assert_a_model(u):
    assert shapes_of(u) == SHAPES
    assert all(v.dtype == torch.float32 and bool(v.isfinite().all()) for v in u.values())


@pytest.mark.parametrize("call", LOCAL)
def test_shapes_types_and_names_of_a_client_are_kept(call):
    piece = registry.build("client", call)
    seen, kept = client_rounds(piece, 3)
    for updates, message in seen:
        for u in updates:
            assert_a_model(u)
        assert_a_model(message["update"])
        assert message["buffers"] == {}
    first, last = tree_leaves(piece.keep(ModelState(tensors(2)))), tree_leaves(kept)
    assert [(v.shape, v.dtype) for v in first] == [(v.shape, v.dtype) for v in last]


@pytest.mark.parametrize("call", SERVER)
def test_shapes_types_and_names_at_the_server_are_kept(call):
    piece = registry.build("server", call)
    updates, state = server_rounds(piece, 3)
    for u in updates:
        assert_a_model(u)
    assert_a_model(piece.view(tensors(1), state))


@pytest.mark.parametrize("call", LOCAL)
def test_the_same_arguments_give_a_client_the_same_and_nothing_given_is_changed(call):
    piece = registry.build("client", call)
    kept, first = piece.keep(ModelState(tensors(2))), client_context()
    state, u, message = piece.begin(kept, first), tensors(20), {"update": tensors(30), "buffers": {}}
    given = (kept, state, u, message, first.params, first.start, dict(first.shared))
    copies = tree_map(torch.clone, given)
    results = []
    for seed in (1, 123):
        torch.manual_seed(seed)
        results.append((piece.enter(ModelState(first.params), kept).params, piece.begin(kept, first),
                        piece.update(u, state, first), piece.end(message, state, kept, first)))
    assert same(*results)
    assert same(given, copies)


@pytest.mark.parametrize("call", SERVER)
def test_the_same_arguments_give_the_server_the_same_and_nothing_given_is_changed(call):
    piece, u, ctx = registry.build("server", call), tensors(20), server_context()
    state = piece.init(ctx.params)
    given = (u, state, ctx.params, ctx.cohort.mean, ctx.cohort[SignSum()], ctx.cohort[Everything()])
    copies = tree_map(torch.clone, given)
    first = piece.update(u, state, ctx), dict(piece.broadcast(state))
    torch.manual_seed(123)
    assert same(first, (piece.update(u, state, ctx), dict(piece.broadcast(state))))
    assert same(given, copies)
    assert same((ctx.cohort.mean, ctx.cohort[SignSum()], ctx.cohort[Everything()]), copies[3:])


@pytest.mark.parametrize("call", LOCAL)
def test_memory_survives_a_checkpoint(call):
    piece = registry.build("client", call)
    whole, last = client_rounds(piece, 4)
    _, kept = client_rounds(piece, 2)
    rest, again = client_rounds(piece, 2, through_a_file(kept), first=2)
    assert same(rest, whole[2:])
    assert same(again, last)


@pytest.mark.parametrize("call", SERVER)
def test_state_survives_a_checkpoint(call):
    piece = registry.build("server", call)
    whole, _ = server_rounds(piece, 4)
    _, state = server_rounds(piece, 2)
    rest, _ = server_rounds(piece, 2, through_a_file(state), first=2)
    assert same(rest, whole[2:])


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("call", LOCAL)
def test_what_an_engine_finds_out_about_drawing_is_true(call):
    """With another key at each step, or at the end, a client does something else if, and only if, it draws there."""
    piece = registry.build("client", call)
    traits = traits_of(ClientChain([piece]), tensors(0), shared())
    (one, other), _ = zip(*(client_rounds(piece, 1, make_key=lambda k=k: rng.key(k, "another")) for k in (0, 1)),
                          strict=True)
    steps, ends = same(one[0][0], other[0][0]), same(one[0][1], other[0][1])
    in_vain = call == "add_gradient_noise(std=0.0)"
    assert (not steps or in_vain) is traits.draws
    assert (not (steps and ends) or in_vain) is ("key" in traits.reads)


@pytest.mark.parametrize("call", SERVER)
def test_no_piece_of_the_server_draws(call):
    """But noise, of which another key must make another."""
    piece = registry.build("server", call)
    assert same(server_rounds(piece, 1), server_rounds(piece, 1, key=rng.key(1, "another"))) == ("noise" not in call)


@pytest.mark.parametrize(("kind", "call"),
                         [*(("client", call) for call in LOCAL), *(("server", call) for call in SERVER)])
def test_a_piece_remembers_how_it_was_made(kind, call):
    made = registry.build(kind, call)
    assert registry.build(kind, str(made.spec)).spec == made.spec == registry.parse(kind, call)


NUMBERS = {"client": [5, 0, 2], "examples": [7, 30, 12], "steps": [2, 2, 2]}


def three_clients(shapes):
    """Stacked gradients, models, starts and memories of three clients, and their keys."""
    return (tensors(30, 3, shapes), tensors(31, 3, shapes), tensors(32, 3, shapes),
            rng.fold(rng.key(5, "client"), torch.arange(3)))


def remember(piece, start):
    """What three clients remember, each something else."""
    firsts = [piece.keep(ModelState({name: v[k] for name, v in start.items()})) for k in range(3)]
    return tree_map(lambda *rows: torch.stack([row + k for k, row in enumerate(rows)]), *firsts)


def one_by_one(piece, shapes):
    gradients, params, start, keys = three_clients(shapes)
    memories, results = remember(piece, start), []
    for k in range(3):
        g, now, began, kept = tree_map(lambda v, k=k: v[k], (gradients, params, start, memories))
        facts = {name: values[k] for name, values in NUMBERS.items()}
        ctx = ClientContext(now, began, 1, shared=shared(shapes), **facts)
        state = piece.begin(kept, ctx)
        for step in range(2):
            ctx = replace(ctx, params=now, step=step, make_key=lambda k=k, step=step: rng.fold(keys[k], step))
            u, state = piece.update(g, state, ctx)
            now = add(now, u)
        ctx = replace(ctx, params=now, step=2, make_key=lambda k=k: keys[k])
        results.append((now, piece.end({"update": subtract(now, began), "buffers": {}}, state, kept, ctx)))
    return tree_map(lambda *rows: torch.stack(rows), *results)


def all_at_once(piece, chain, shapes):
    gradients, params, start, keys = three_clients(shapes)
    facts = Facts(**{name: torch.tensor(values) for name, values in NUMBERS.items()},
                  shared=tree_map(lambda v: v[None], shared(shapes)))
    kept = (remember(piece, start),)
    state = chain.begin(kept, params, start, 1, facts)
    for step in range(2):
        u, state = chain.update(gradients, state, params, start, 1, rng.fold(keys, step), step, facts)
        params = add(params, u)
    message, kept = chain.end({"update": subtract(params, start), "buffers": {}}, state, kept, params, start, 1, keys,
                              facts)
    return params, (message, kept[0])


@pytest.mark.parametrize("shapes", [SHAPES, WITHOUT_SCALARS], ids=["with a scalar", "without"])
@pytest.mark.parametrize("call", LOCAL)
def test_three_clients_at_once_equal_one_by_one(call, shapes):
    """By vmap, and stacked as they are where the piece was found to act on each coordinate."""
    piece = registry.build("client", call)
    chain = BatchedChain([registry.parse("client", call)], tensors(0, shapes=shapes), shared=shared(shapes))
    got, expected = tree_leaves(all_at_once(piece, chain, shapes)), tree_leaves(one_by_one(piece, shapes))
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("call", [call for calls in PIECES["pool"].values() for call in calls])
def test_pools_are_consistent_and_their_state_survives_a_checkpoint(call):
    """Four rounds with a checkpoint in between equal four without; who trains, keeps and uses what fits together."""

    def rounds(pool, state, first, last):
        changes = []
        for round in range(first, last):
            models, kept = pool.keeps(state)
            keeps = [{m for m, mine in zip(models, row, strict=True) if mine} for row in kept]
            accuracies = np.array([[0.1 + 0.07 * ((3 * client + 5 * m + round) % 11) for m in models]
                                   for client in range(4)])
            trainers = pool.trainers(state, [0, 2])
            assert {client for clients in trainers.values() for client in clients} == {0, 2}
            for m, clients in trainers.items():
                assert all(m in keeps[client] for client in clients)
                assert all(score > 0 for score in pool.scores(state, m, clients))
            state, changed = pool.after_round(state, accuracies, round, rng.key(0, "pool", round))
            changes.append((list(changed.clones), list(changed.deleted)))
            models, kept = pool.keeps(state)
            assert all(row[list(models).index(m)] for m, row in zip(pool.choice(state), kept, strict=True))
        return state, changes

    pool = registry.build("pool", call)
    whole, changes = rounds(pool, pool.init(4), 1, 5)
    half, before = rounds(pool, pool.init(4), 1, 3)
    rest, after = rounds(pool, pool.restore(through_a_file(half)), 3, 5)
    assert before + after == changes
    torch.testing.assert_close(rest, whole, rtol=0, atol=0)
    groups = np.array([0, 0, 1, 1])
    assert pool.metrics(rest, groups) == pool.metrics(whole, groups)


NEEDS = {"ray": "ray"}  # engine -> package that it is an extra of


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["projection and noise", "fedcd", "batchnorm and dropout"])
def test_every_engine_gives_the_same_bits_twice(name, engine):
    if engine in NEEDS:
        pytest.importorskip(NEEDS[engine])
    recipe, model = RECIPES[name]
    own = {"model": model()} if model else {}
    first, second = (askew.run(recipe, engine=engine, **own) for _ in range(2))
    assert first.records == second.records
    assert same(first.model, second.model)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_trains_the_same_whoever_else_is_in_the_round(engine):
    """Streams and results belong to the client: alone or among others, in any order."""
    if engine in NEEDS:
        pytest.importorskip(NEEDS[engine])
    from askew.engine.build import build_task
    from askew.engine.choice import make_engine
    from askew.engine.protocol import Job, Lane
    from askew.engine.start import initial_model

    task = build_task(projected(UNEQUAL, radius=3.0, noise=0.01))
    start = initial_model(task)

    def updates(clients):
        found = {}
        lane = Lane(task, {0: start}, [Job(0, client) for client in clients], 1)
        for _, chunk in make_engine(engine, task).train([lane]):
            for k, job in enumerate(chunk.jobs):
                found[job.client] = {name: v[k].clone() for name, v in chunk.updates.items()}
        return found

    alone, among = updates([3]), updates([5, 3, 0, 1])
    assert set(among) == {0, 1, 3, 5}
    for name, v in alone[3].items():
        torch.testing.assert_close(among[3][name], v, atol=1e-6, rtol=1e-4)
        assert not torch.allclose(among[0][name], v, atol=1e-4)
