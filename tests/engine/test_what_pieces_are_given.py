"""Pieces may keep the tensors that they are given, move them about, clip them, and ask for their sizes: by hand, and in
every engine form, with clients of unequal sizes."""

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from conform.forms import COMPILES, FORMS, rounds

import askew
from askew import ClientPiece, OnGradient, OnUpdate, Optimiser, ServerPiece, piece
from askew.core import registry
from askew.engine.build import build_task
from askew.engine.sequential import Sequential
from askew.pieces.statistic import MeanOf

SIZES = {"numel": lambda v: v.numel(), "shape": lambda v: v.shape.numel(), "size": lambda v: 4 * max(v.size()),
         "len": lambda v: 4 * len(v)}


def heavy_ball(beta: float = 0.9) -> OnUpdate:
    """u + beta (w - w before): its state is the weights as they are given."""
    return OnUpdate(lambda u, s, ctx: ({n: v + beta * (ctx.params[n] - s[n]) for n, v in u.items()}, dict(ctx.params)),
                    begin=lambda kept, ctx: dict(ctx.params))


def anchored(mu: float = 1.0) -> OnGradient:
    """FedProx with its anchor in the state."""
    return OnGradient(lambda g, s, ctx: ({n: v + mu * (ctx.params[n] - s[n]) for n, v in g.items()}, s),
                      begin=lambda kept, ctx: dict(ctx.params))


def of_views(beta: float = 0.9) -> OnUpdate:
    """The heavy ball by views of the weights."""
    def views(w):
        return {n: v.view(v.shape)[...] for n, v in w.items()}

    return OnUpdate(lambda u, s, ctx: ({n: v + beta * (ctx.params[n] - s[n]) for n, v in u.items()}, views(ctx.params)),
                    begin=lambda kept, ctx: views(ctx.params))


def two_before(a: float = 0.5, b: float = 0.25) -> OnGradient:
    """g + a g before - b g before that: what was first in its state comes second."""
    return OnGradient(lambda g, s, ctx: ({n: v + a * s[0][n] - b * s[1][n] for n, v in g.items()}, (g, s[0])),
                      begin=lambda kept, ctx: tuple({n: torch.zeros_like(v) for n, v in ctx.params.items()}
                                                    for _ in range(2)))


def one_late() -> OnGradient:
    """The gradient of the step before, whose place in the state this one's takes."""
    return OnGradient(lambda g, s, ctx: (s, g), begin=lambda kept, ctx: {n: torch.zeros_like(v)
                                                                        for n, v in ctx.params.items()})


def three_late(weight: float = 0.3) -> OnUpdate:
    """The update of three steps before; its state begins with one tensor in three places."""
    return OnUpdate(lambda u, s, ctx: ({n: v + weight * s[2][n] for n, v in u.items()}, (u, s[0], s[1])),
                    begin=lambda kept, ctx: ({n: torch.zeros_like(v) for n, v in ctx.params.items()},) * 3)


def mean_and_first(at: int = 3) -> OnUpdate:
    """From one step on, two parts of its state are one tensor."""
    def update(u, s, ctx):
        if ctx.step == at:
            s = {"mean": u, "first": u}
        else:
            s = {"mean": {n: 0.5 * s["mean"][n] + 0.5 * v for n, v in u.items()}, "first": s["first"]}
        return {n: s["mean"][n] + 0.1 * s["first"][n] for n in u}, s

    return OnUpdate(update, begin=lambda kept, ctx: {part: {n: torch.zeros_like(v) for n, v in ctx.params.items()}
                                                     for part in ("mean", "first")})


def both_at_once() -> OnUpdate:
    """In every step, two parts of its state are one tensor, and a third is what the round began with."""
    return OnUpdate(lambda u, s, ctx: ({n: v + 0.2 * s[0][n] + 0.1 * s[1][n] + 0.1 * s[2][n] for n, v in u.items()},
                                       (u, u, dict(ctx.start))),
                    begin=lambda kept, ctx: tuple({n: torch.zeros_like(v) for n, v in ctx.params.items()}
                                                  for _ in range(3)))


def by_table(what: str = "step") -> OnUpdate:
    """A table of numbers for some steps or rounds, in which no tensor is found."""
    return OnUpdate(lambda u, s, ctx: ({n: {0: 0.1, 1: 0.3, 2: 0.2}.get(getattr(ctx, what) + 1, 1.0) * v
                                        for n, v in u.items()}, s))


def by_table_at_end(what: str = "client") -> ClientPiece:
    """A table of numbers for clients, their steps or their examples."""
    table = {count: 1 / (1 + count) for count in range(100)}
    return ClientPiece(end=lambda message, s, kept, ctx: (
        {**message, "update": {n: table.get(getattr(ctx, what), 5.0) * v for n, v in message["update"].items()}}, kept))


def by_table_and_size() -> OnUpdate:
    """A table of clients behind something that only tensors of their true sizes can do."""
    def update(u, s, ctx):
        rows = u["fc1.weight"].view(16, -1).mean(1)
        return {**u, "fc1.bias": rows * {0: 0.1, 1: 0.3}.get(ctx.client, 1.0)}, s

    return OnUpdate(update)


def by_words() -> OnUpdate:
    """A table whose keys are words, such as one that was read from a file, and a look at the step besides."""
    return OnUpdate(lambda u, s, ctx: ({n: ({"0": 0.1, "1": 0.3}.get(str(ctx.client), 1.0) if ctx.step else 0.5) * v
                                        for n, v in u.items()}, s))


def whole_sgd(by: str = "int", lr: float = 0.001) -> Optimiser:
    """What is beyond a multiple of 8 of a gradient; small ones are all of that."""
    whole = {"int": lambda v: (v / 8).int(), "div": lambda v: torch.div(v, 8, rounding_mode="trunc")}[by]
    return Optimiser(lambda g, s, ctx: ({n: -lr * (v - 8 * whole(v)) for n, v in g.items()}, s))


def boxed_sgd(lr: float = 0.3, box: float = 0.3) -> Optimiser:
    """Every weight stays in a box that few numbers reach."""
    return Optimiser(lambda g, s, ctx: ({n: (ctx.params[n] - lr * v).clamp(-box, box) - ctx.params[n]
                                         for n, v in g.items()}, s))


def clamped_sgd(lr: float = 0.01, limit: float = 10.0) -> Optimiser:
    """Gradients are cut at a length that a trial does not reach."""
    return Optimiser(lambda g, s, ctx: ({n: -lr * v.clamp(-limit, limit) for n, v in g.items()}, s))


def shrink_large(by: str = "numel", limit: int = 40) -> OnGradient:
    size = SIZES[by]
    return OnGradient(lambda g, s, ctx: ({n: 0.1 * v if size(v) > limit else v for n, v in g.items()}, s))


def remember_large(limit: int = 40) -> ClientPiece:
    """Large tensors stay with the client."""
    return ClientPiece(
        keep=lambda model: {n: v.clone() for n, v in model.params.items()},
        enter=lambda model, kept: type(model)({n: kept[n] if v.numel() > limit else v
                                               for n, v in model.params.items()}, model.buffers),
        end=lambda message, s, kept, ctx: (message, {n: ctx.params[n] if v.numel() > limit else v
                                                     for n, v in kept.items()}))


def by_halves() -> OnUpdate:
    """A state that begins as a whole number and becomes a fraction."""
    return OnUpdate(lambda u, s, ctx: ({n: v / (1 + s) for n, v in u.items()}, s + 0.5),
                    begin=lambda kept, ctx: torch.zeros((), dtype=torch.int64, device=ctx.params["fc2.bias"].device))


def in_place(beta: float = 0.8) -> OnUpdate:
    """Momentum that is kept, and written over at each step."""
    def update(u, s, ctx):
        for n, v in u.items():
            s[n].mul_(beta).add_(v)
        return {n: v.clone() for n, v in s.items()}, s

    return OnUpdate(update, keep=lambda model: {n: torch.zeros_like(v) for n, v in model.params.items()},
                    begin=lambda kept, ctx: kept, end=lambda message, s, kept, ctx: (message, s))


def in_numbers() -> OnUpdate:
    """Plain numbers in memory, state and message: those of its steps are tensors where many clients are trained."""
    return OnUpdate(lambda u, s, ctx: ({n: v * s["rate"] / (1 + s["seen"]) for n, v in u.items()},
                                       {**s, "seen": ctx.step}),
                    keep=lambda model: 0, begin=lambda kept, ctx: {"seen": 0, "rate": 1 / (1 + 0.1 * kept)},
                    end=lambda message, s, kept, ctx: ({**message, "steps": ctx.steps, "half": 0.5}, kept + ctx.steps))


def by_means() -> OnUpdate:
    """One number for all of a tensor."""
    return OnUpdate(lambda u, s, ctx: ({n: 0.1 * v.abs().mean() for n, v in u.items()}, s))


def mean_steps() -> ServerPiece:
    """Reads what `in_numbers` sends."""
    steps, half = MeanOf("steps"), MeanOf("half")
    return ServerPiece(lambda u, s, ctx: ({n: v * ctx.cohort[half] * ctx.cohort[steps] / 10 for n, v in u.items()}, s),
                       needs=[steps, half])


CLIENTS = {
    "a count that becomes a fraction": ["sgd(lr=0.3)", "by_halves()"],
    "momentum in place": ["sgd(lr=0.1)", "in_place()"],
    "plain numbers": ["sgd(lr=0.3)", "in_numbers()"],
    "the weights in a state": ["sgd(lr=0.5)", "heavy_ball()"], "an anchor in a state": ["anchored()", "sgd(lr=0.5)"],
    "views of the weights": ["sgd(lr=0.5)", "of_views()"], "two gradients before": ["two_before()", "sgd(lr=0.5)"],
    "the gradient before": ["one_late()", "sgd(lr=0.5)"], "in a box": ["boxed_sgd()"],
    "cut gradients": ["clamped_sgd()"], "three steps before": ["sgd(lr=0.1)", "three_late()"],
    "one tensor from a step on": ["sgd(lr=0.1)", "mean_and_first()"],
    "one tensor in two places": ["sgd(lr=0.1)", "both_at_once()"],
    "a table of steps": ["sgd(lr=0.1)", "by_table()"], "a table of rounds": ["sgd(lr=0.1)", "by_table(what='round')"],
    "a table of clients": ["sgd(lr=0.1)", "by_table(what='client')"], "a table of words": ["sgd(lr=0.1)", "by_words()"],
    "a table of clients, true sizes": ["sgd(lr=0.1)", "by_table_and_size()"],
    **{f"a table of {what} at the end": ["sgd(lr=0.1)", f"by_table_at_end(what='{what}')"]
       for what in ("client", "step", "steps", "examples")},
    "cut gradients to whole numbers": ["whole_sgd()"], "cut gradients by division": ["whole_sgd(by='div')"],
    "large tensors stay": ["sgd(lr=0.1)", "remember_large()"],
    **{f"large by {by}": [f"shrink_large(by='{by}')", "sgd(lr=0.1)"] for by in SIZES},
}


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
    registry.names("client")
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(found) for kind, found in registry._PIECES.items()})
    for function in (heavy_ball, anchored, of_views, two_before, one_late, three_late, mean_and_first, both_at_once,
                     by_table, whole_sgd, boxed_sgd, clamped_sgd, shrink_large, remember_large, by_halves, in_numbers,
                     by_means, in_place, by_table_at_end,
                     by_table_and_size, by_words):
        piece("client")(function)
    piece("server")(mean_steps)


def data(scale: float = 1.0) -> askew.Dataset:
    generator = torch.Generator().manual_seed(0)
    x = scale * torch.randn(300, 4, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return askew.Dataset.from_tensors((x[:240], y[:240]), (x[240:], y[240:]))


def task_of(name: str) -> object:
    recipe = askew.Recipe(population="power_law(clients=5, exponent=1.0, min_examples=10)", rounds=2, epochs=2,
                          batch_size=16, client=CLIENTS[name], model="mlp(hidden=[16])",
                          server=["mean()", "mean_steps()"] if name == "plain numbers" else "mean()")
    return build_task(recipe, data=data(100.0 if name.startswith("cut") else 1.0))


@pytest.mark.parametrize("name", CLIENTS)
def test_every_form_trains_alike(name):
    expected = rounds(Sequential, task_of(name), 2).view().params
    for form in (form for form in FORMS if form != "compiled"):
        got = rounds(FORMS[form], task_of(name), 2).view().params
        for tensor, v in expected.items():
            torch.testing.assert_close(got[tensor], v, rtol=1e-4, atol=1e-5, msg=lambda m, form=form: f"{form}: {m}")


@pytest.mark.parametrize(("client", "network"), [
    # As many clients as inputs and outputs: a number of each client fits the last axis of all weights.
    ("by_means()", lambda: torch.nn.Linear(5, 5)),
    # All batches have other sizes, so that a step is taken by one client after the other.
    ("by_halves()", lambda: torch.nn.Sequential(OrderedDict(norm=torch.nn.BatchNorm1d(5), fc2=torch.nn.Linear(5, 5)))),
])
def test_states_and_updates_of_other_forms_than_the_engine_has_room_for(client, network):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, y, net = torch.randn(60, 5), torch.arange(60) % 5, network()
    recipe = askew.Recipe(population="power_law(clients=5, exponent=1.0, min_examples=2)", rounds=2, batch_size=0,
                          epochs=2, client=["sgd(lr=0.3)", client])

    def trained(make):
        whole = askew.Dataset.from_tensors((x, y), (x, y))
        return rounds(make, build_task(recipe, data=whole, model=net), 2).view().params

    expected = trained(Sequential)
    for form in (form for form in FORMS if form != "compiled"):
        got = trained(FORMS[form])
        for tensor, v in expected.items():
            torch.testing.assert_close(got[tensor], v, rtol=1e-4, atol=1e-5, msg=lambda m, form=form: f"{form}: {m}")


@pytest.mark.slow
@pytest.mark.skipif(not COMPILES, reason="torch compiles for CPUs with g++ and Python's headers, which are missing")
def test_compiled():
    name = "the weights in a state"
    expected = rounds(Sequential, task_of(name), 2).view().params
    got = rounds(FORMS["compiled"], task_of(name), 2).view().params
    for tensor, v in expected.items():
        torch.testing.assert_close(got[tensor], v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "step"), [
    ("the weights in a state", lambda g, w, b, a, start: -0.5 * g[0] + 0.9 * (w - b)),
    ("views of the weights", lambda g, w, b, a, start: -0.5 * g[0] + 0.9 * (w - b)),
    ("an anchor in a state", lambda g, w, b, a, start: -0.5 * (g[0] + w - start)),
    ("two gradients before", lambda g, w, b, a, start: -0.5 * (g[0] + 0.5 * g[1] - 0.25 * g[2])),
    ("cut gradients to whole numbers", lambda g, w, b, a, start: -0.001 * (g[0] - 8 * torch.trunc(g[0] / 8))),
    ("cut gradients by division", lambda g, w, b, a, start: -0.001 * (g[0] - 8 * torch.trunc(g[0] / 8))),
    ("the gradient before", lambda g, w, b, a, start: -0.5 * g[1]),
    ("in a box", lambda g, w, b, a, start: (w - 0.3 * g[0]).clamp(-0.3, 0.3) - w),
])
def test_by_hand(name, step):
    """One client, ten steps on all examples; `step` has the last three gradients, the weights and those before."""
    whole = data(100.0 if name.startswith("cut") else 1.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3)
    w = [p.detach().clone().requires_grad_() for p in net.parameters()]
    start = before = [v.detach().clone() for v in w]
    past = [[torch.zeros_like(v) for v in w] for _ in range(3)]
    x, y = whole.train.x, whole.train.y
    for _ in range(10):
        past = [list(torch.autograd.grad(F.cross_entropy(F.linear(x, *w), y), w)), *past[:2]]
        now = [v.detach().clone() for v in w]
        with torch.no_grad():
            for at, v in enumerate(w):
                v += step([g[at] for g in past], now[at], before[at], None, start[at])
        before = now
    recipe = askew.Recipe(population="iid(clients=1)", rounds=1, epochs=10, batch_size=0, client=CLIENTS[name])
    for engine in ("sequential", "parallel", "vectorised"):
        got = askew.run(recipe, data=whole, model=net, engine=engine).model
        for v, right in zip(got.values(), w, strict=True):
            torch.testing.assert_close(v, right.detach(), rtol=1e-4, atol=1e-5)
