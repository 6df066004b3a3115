"""One table over all pieces and engines: what every one of them must do, and none may be missing from it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from askew.core.transform import Context, add
from conform.pieces import PIECES, RECIPES, UNEQUAL

import askew
from askew.core import registry, rng
from askew.core.cohort import Cohort
from askew.engine.choice import ENGINES
from askew.pieces.methods import projected

TRANSFORMS = [(kind, call) for kind in ("client", "upload", "server")
              for calls in PIECES[kind].values() for call in calls]
LOCAL = [(kind, call) for kind, call in TRANSFORMS if kind != "server"]
SHAPES = {"a": (2, 3), "b": (4,), "c": ()}


def test_no_kind_is_missing_from_the_table():
    assert set(PIECES) == set(registry.KINDS)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_no_piece_is_missing_from_the_table(kind):
    ours = {name for name in registry.names(kind) if registry.find(kind, name).__module__.startswith("askew.")}
    assert ours == set(PIECES[kind])
    for name, calls in PIECES[kind].items():
        assert calls
        assert all(registry.parse(kind, call).name == name for call in calls)


def tensors(seed, clients=None):
    generator = torch.Generator().manual_seed(seed)
    lead = () if clients is None else (clients,)
    return {name: torch.randn((*lead, *shape), generator=generator) for name, shape in SHAPES.items()}


def context(round=0, params=None):
    """What a client and a server see: a model that has moved from its start, a cohort of three, own training."""
    cohort = Cohort(tensors(0), needs=["signs"])
    cohort.add(tensors(10 + round, clients=3), torch.tensor([1.0, 2.0, 3.0]), [4, 7, 9])
    params = tensors(1) if params is None else params
    return Context(params=params, start=tensors(2), round=round, key=rng.key(0, "conformance", round), step=round,
                   cohort=cohort, train=lambda model, epochs: {name: 0.9**epochs * v for name, v in model.items()})


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(v, other[name]) for name, v in one.items())


def advance(transform, rounds, state=None, first=0):
    """The updates of some rounds, and the state after them."""
    params, updates = tensors(1), []
    state = transform.init(params) if state is None else state
    for round in range(first, first + rounds):
        u, state = transform.update(tensors(20 + round), state, context(round, params))
        updates.append(u)
    return updates, state


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_shapes_types_and_names_are_kept(kind, call):
    for u in advance(registry.build(kind, call), 3)[0]:
        assert {name: tuple(v.shape) for name, v in u.items()} == SHAPES
        assert all(v.dtype == torch.float32 and bool(v.isfinite().all()) for v in u.values())


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_the_view_is_a_model_too(kind, call):
    transform = registry.build(kind, call)
    _, state = advance(transform, 1)
    assert {name: tuple(v.shape) for name, v in transform.view(tensors(1), state).items()} == SHAPES


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_the_same_arguments_give_the_same_result_and_nothing_given_is_changed(kind, call):
    transform, u, ctx = registry.build(kind, call), tensors(20), context()
    state = transform.init(ctx.params)
    copies = [{name: v.clone() for name, v in given.items()} for given in (u, ctx.params, ctx.start, ctx.cohort.mean)]
    first, _ = transform.update(u, state, ctx)
    torch.manual_seed(123)
    again, _ = transform.update(u, state, ctx)
    assert same(first, again)
    for given, copy in zip((u, ctx.params, ctx.start, ctx.cohort.mean), copies, strict=True):
        assert same(given, copy)


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_state_survives_a_checkpoint(kind, call):
    transform = registry.build(kind, call)
    whole, _ = advance(transform, 4)
    _, state = advance(transform, 2)
    rest, _ = advance(transform, 2, through_a_file(state), first=2)
    assert all(same(mine, theirs) for mine, theirs in zip(rest, whole[2:], strict=True))


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_a_piece_says_truly_whether_it_draws_random_numbers(kind, call):
    transform, ctx = registry.build(kind, call), context()
    state = transform.init(ctx.params)
    one, _ = transform.update(tensors(20), state, ctx)
    other, _ = transform.update(tensors(20), state, replace(ctx, key=rng.key(1, "another")))
    assert same(one, other) is not transform.random


@pytest.mark.parametrize(("kind", "call"), TRANSFORMS)
def test_a_piece_remembers_how_it_was_made(kind, call):
    transform = registry.build(kind, call)
    assert registry.build(kind, str(transform.spec)).spec == transform.spec == registry.parse(kind, call)


def three_clients():
    """Stacked gradients, models and starts of three clients, and their keys."""
    return tensors(30, 3), tensors(31, 3), tensors(32, 3), rng.fold(rng.key(5, "client"), torch.arange(3))


def one_by_one(transform, steps=2):
    gradients, params, start, keys = three_clients()
    results = []
    for k in range(3):
        mine = {name: v[k] for name, v in params.items()}
        state = transform.init(mine)
        for step in range(steps):
            ctx = Context(mine, {name: v[k] for name, v in start.items()}, 1, rng.fold(keys[k], step), step)
            u, state = transform.update({name: v[k] for name, v in gradients.items()}, state, ctx)
            mine = add(mine, u)
        results.append(mine)
    return {name: torch.stack([mine[name] for mine in results]) for name in SHAPES}


def stacked(transform, run, steps=2):
    gradients, params, start, keys = three_clients()
    state = run(transform.init)(params)
    for step in range(steps):
        def act(u, state, params, start, key, step=step):
            return transform.update(u, state, Context(params, start, 1, rng.fold(key, step), step))

        u, state = run(act)(gradients, state, params, start, keys)
        params = add(params, u)
    return params


@pytest.mark.parametrize(("kind", "call"), LOCAL)
def test_three_clients_under_vmap_equal_one_by_one(kind, call):
    transform = registry.build(kind, call)
    got, expected = stacked(transform, torch.func.vmap), one_by_one(transform)
    for name, v in expected.items():
        torch.testing.assert_close(got[name], v, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("kind", "call"), LOCAL)
def test_a_piece_that_says_it_acts_on_each_coordinate_needs_no_vmap(kind, call):
    transform = registry.build(kind, call)
    if not transform.elementwise:
        pytest.skip("it does not say so")
    got, expected = stacked(transform, lambda function: function), one_by_one(transform)
    for name, v in expected.items():
        torch.testing.assert_close(got[name], v, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("call", [call for calls in PIECES["pool"].values() for call in calls])
def test_pools_are_consistent_and_their_state_survives_a_checkpoint(call):
    """Four rounds with a checkpoint in between equal four without; who trains, keeps and uses what fits together."""

    def rounds(pool, state, first, last):
        changes = []
        for round in range(first, last):
            keeps = pool.keeps(state)
            accuracies = [{m: 0.1 + 0.07 * ((3 * client + 5 * m + round) % 11) for m in mine}
                          for client, mine in enumerate(keeps)]
            trainers = pool.trainers(state, [0, 2])
            assert {client for clients in trainers.values() for client in clients} == {0, 2}
            for m, clients in trainers.items():
                assert all(m in keeps[client] for client in clients)
                assert all(score > 0 for score in pool.scores(state, m, clients))
            state, changed = pool.after_round(state, accuracies, round, rng.key(0, "pool", round))
            changes.append((list(changed.clones), list(changed.deleted)))
            assert all(m in mine for m, mine in zip(pool.choice(state), pool.keeps(state), strict=True))
        return state, changes

    pool = registry.build("pool", call)
    whole, changes = rounds(pool, pool.init(4), 1, 5)
    half, before = rounds(pool, pool.init(4), 1, 3)
    rest, after = rounds(pool, through_a_file(half), 3, 5)
    assert (rest, before + after) == (whole, changes)
    assert pool.metrics(rest, [0, 0, 1, 1]) == pool.metrics(whole, [0, 0, 1, 1])


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
    from askew.engine.choice import make_engine
    from askew.engine.protocol import Job, Lane
    from askew.engine.task import build_task, initial_model

    task = build_task(projected(UNEQUAL, radius=3.0, noise=0.01))
    start = initial_model(task)

    def updates(clients):
        found = {}
        for _, chunk in make_engine(engine, task).train([Lane(task, {0: start}, [Job(0, client) for client in clients], 1)]):
            for k, job in enumerate(chunk.jobs):
                found[job.client] = {name: v[k].clone() for name, v in chunk.updates.items()}
        return found

    alone, among = updates([3]), updates([5, 3, 0, 1])
    assert set(among) == {0, 1, 3, 5}
    for name, v in alone[3].items():
        torch.testing.assert_close(among[3][name], v, atol=1e-6, rtol=1e-4)
        assert not torch.allclose(among[0][name], v, atol=1e-4)
