"""What engines find out about client pieces, by running them: what acts by coordinates, what is read, who draws."""

from __future__ import annotations

import pytest
import torch

import askew
from askew.core import registry, rng
from askew.core.client_piece import ClientChain, ClientPiece, OnGradient, Optimiser
from askew.core.tensors import norm
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.build import build_task
from askew.engine.choice import ENGINES
from askew.engine.traits import traits_of
from askew.rounds.simulation import Simulation

MODEL = {"fc.weight": torch.zeros(10, 5), "fc.bias": torch.zeros(10), "gain": torch.zeros(1)}
ALL = {"params", "start", "round", "step", "steps", "client", "examples", "shared", "key"}


def traits(*pieces, model=MODEL, shared=None):
    built = [registry.build("client", p) if isinstance(p, str) else p for p in pieces]
    return traits_of(ClientChain(built), model, shared)


# call -> (acts on each coordinate by itself, what it reads, draws at every step)
@pytest.mark.parametrize(("call", "elementwise", "reads", "draws"), [
    ("sgd(lr=0.1)", True, {"round"}, False),
    ("adam(lr=0.1)", False, {"params", "round"}, False),
    ("adam(lr=0.1, keep_state=True)", False, {"round"}, False),
    ("add_dynamic_regulariser(alpha=0.1)", True, {"params", "start"}, False),
    ("clip_update(length=1.0)", True, set(), False),
    ("stay_local(names=['*'])", True, {"params"}, False),
    ("sgd(lr=0.1, momentum=0.9)", True, {"params", "round"}, False),
    ("sgd(lr=drops(decay(0.1, 0.9), at=[2]), momentum=0.9, nesterov=True, weight_decay=0.1)", True, {"params", "round"},
     False),
    ("sgd(lr=0.1, momentum=0.9, keep_momentum=True)", True, {"round"}, False),
    ("add_proximal(mu=0.1)", True, {"params", "start"}, False),
    ("add_gradient_noise(std=0.1)", False, ALL, True),  # it asks for sizes, to draw so many numbers
    ("clip_gradient(length=1.0)", False, set(), False),
    ("project_to_ball(radius=1.0)", False, {"params"}, False),
    ("project_to_ball(radius=1.0, centre='start')", False, {"params", "start"}, False),
    ("quantize(bits=8)", True, {"start"}, False),
    ("quantize(bits=8, what='update')", True, set(), False),
    ("quantize_at_random(bits=8)", True, ALL, False),  # it draws at the end, not at every step
])
def test_the_pieces_of_askew(call, elementwise, reads, draws):
    got = traits(call)
    assert (got.elementwise, got.reads, got.draws) == (elementwise, reads, draws)


def test_no_piece_of_askew_is_missing_from_the_table():
    table = next(mark for mark in test_the_pieces_of_askew.pytestmark if mark.name == "parametrize").args[1]
    ours = {name for name in registry.names("client") if registry.find("client", name).__module__.startswith("askew.")}
    assert {registry.parse("client", row[0]).name for row in table} | {"correct_drift", "scale_by_server"} == ours


def test_what_the_server_sends_is_read():
    got = traits("correct_drift()", shared={"control": MODEL})
    assert (got.elementwise, got.reads, got.draws) == (False, {"params", "shared", "steps"}, False)
    got = traits("scale_by_server()", shared={"factor": torch.ones(())})
    assert (got.elementwise, got.reads, got.draws) == (False, {"shared"}, False)


@pytest.mark.parametrize("looks",
                         [lambda g: g.ndim > 1, lambda g: g.numel() > 2, lambda g: g.shape[-1] == 2,
                          lambda g: len(g) == 2])
def test_a_piece_that_looks_at_shapes_does_not_act_by_coordinates(looks):
    """No weight decay on biases, a rate by fan-in: a client axis in front, or a flat tensor, would look different."""
    piece = OnGradient(lambda u, state, ctx: ({name: 2 * g if g.ndim and looks(g) else g for name, g in u.items()},
                                              state))
    assert not traits(piece, model={"w": torch.zeros(3, 4), "b": torch.zeros(3)}).elementwise


def test_a_chain_acts_by_coordinates_where_all_its_pieces_do():
    assert traits("add_proximal(0.1)", "sgd(0.1, momentum=0.9)").elementwise
    for pieces in (["clip_gradient(1.0)", "sgd(0.1)"], ["sgd(0.1)", "project_to_ball(1.0)"]):
        assert not traits(*pieces).elementwise
    assert traits("add_proximal(0.1)", "sgd(decay(0.1, 0.9))", "quantize(8)").reads == {"params", "start", "round"}
    assert traits("sgd(0.1)", "quantize_at_random(8)").elementwise


def step(update, begin=None, **rest):
    return ClientPiece(update, begin=begin or (lambda kept, ctx: ()), **rest)


def scaled(by):
    """u times what `by` makes of the update, the state and the context."""
    return step(lambda u, state, ctx: ({name: v * by(u, state, ctx) for name, v in u.items()}, state))


@pytest.mark.parametrize("piece", [
    scaled(lambda u, state, ctx: 2.0),
    scaled(lambda u, state, ctx: torch.tensor(2.0)),
    scaled(lambda u, state, ctx: 0.5**ctx.round),
    scaled(lambda u, state, ctx: 1 / (1 + ctx.step)),
    step(lambda u, state, ctx: ({name: torch.where(v > 0, v, 0.0).clamp(max=1.0) for name, v in u.items()}, state)),
    step(lambda u, state, ctx: (dict(zip(u, torch._foreach_add(list(u.values()), list(ctx.params.values())),
                                         strict=True)), state)),
    step(lambda u, state, ctx: (u, {name: v + u[name] ** 2 for name, v in state.items()}),
         begin=lambda kept, ctx: dict(ctx.params)),
], ids=["number", "tensor", "round", "step", "functions", "lists", "state"])
def test_by_coordinates(piece):
    assert traits(piece).elementwise


@pytest.mark.parametrize("piece", [
    scaled(lambda u, state, ctx: norm(u)),
    scaled(lambda u, state, ctx: torch._foreach_norm(list(u.values()))[0]),
    scaled(lambda u, state, ctx: u["gain"].amax()),
    scaled(lambda u, state, ctx: u["gain"]),
    step(lambda u, state, ctx: ({**u, "fc.weight": u["fc.weight"] * u["fc.bias"][:, None]}, state)),
    step(lambda u, state, ctx: ({name: v.sort(0).values for name, v in u.items()}, state)),
    step(lambda u, state, ctx: ({name: v / state for name, v in u.items()}, state + 1),
         begin=lambda kept, ctx: torch.tensor(1)),
    step(lambda u, state, ctx: ({name: v / state for name, v in u.items()}, state + 1),
         begin=lambda kept, ctx: torch.ones(1)),
    scaled(lambda u, state, ctx: ctx.client),
    scaled(lambda u, state, ctx: ctx.examples),
    scaled(lambda u, state, ctx: ctx.steps),
    scaled(lambda u, state, ctx: rng.uniform(ctx.key, 1)[0]),
    step(lambda u, state, ctx: ({name: v + ctx.shared["c"][name] for name, v in u.items()}, state)),
], ids=["norm", "norms of a list", "largest", "broadcast", "rows", "sorted", "counter", "counter of one axis", "client",
        "examples", "steps", "key", "shared"])
def test_not_by_coordinates(piece):
    """Stacked as it is, each of these would mix clients or meet numbers per client that do not fit."""
    got = traits(piece, shared={"c": MODEL})
    assert not got.elementwise
    if "shared" not in got.reads:
        assert not traits(piece).elementwise


def test_what_the_server_sends_makes_no_difference_to_who_does_not_read_it():
    assert traits("sgd(0.1)", shared={"c": MODEL}) == traits("sgd(0.1)")


def test_a_weight_without_axes_is_not_stacked_as_it_is():
    """[K] numbers beside [K, ...] tensors: hyper-parameters that are columns would make a table of them."""
    assert not traits("sgd(0.1)", model={"w": torch.zeros(2), "scale": torch.tensor(1.0)}).elementwise


@pytest.mark.parametrize("name", ["client", "examples", "steps", "step", "round"])
@pytest.mark.parametrize("place", ["begin", "update", "end"])
def test_what_is_read_shows_wherever_it_is_read(name, place):
    def look(ctx):
        return 0.0 * getattr(ctx, name)

    piece = {"begin": ClientPiece(begin=lambda kept, ctx: torch.zeros(()) + look(ctx)),
             "update": scaled(lambda u, state, ctx: look(ctx)),
             "end": ClientPiece(end=lambda message, state, kept, ctx: (
                 {**message, "n": torch.zeros(()) + look(ctx)}, kept))}[place]
    assert traits(piece).reads == {name}


def test_drawing_at_the_end_is_not_drawing_at_every_step():
    at_end = ClientPiece(end=lambda message, state, kept, ctx: ({**message, "n": rng.uniform(ctx.key, 1)}, kept))
    assert (traits(at_end).draws, traits(at_end).reads) == (False, {"key"})
    assert traits(scaled(lambda u, state, ctx: rng.uniform(ctx.key, 1)[0])).draws


def test_who_goes_another_way_in_another_round_is_taken_for_one_that_does_everything():
    """Only the first way shows; that the others act by coordinates, and what they read, nobody knows."""
    for piece in (scaled(lambda u, state, ctx: 1.0 if ctx.round < 2 else norm(u)),
                  scaled(lambda u, state, ctx: [1.0, 0.5][int(ctx.step)]),
                  ClientPiece(end=lambda message, state, kept, ctx: (message if ctx.round < 1
                                                                     else {**message, "n": ctx.key}, kept))):
        assert traits(piece) == traits(scaled(lambda u, state, ctx: u["no such tensor"]))
        got = traits(piece)
        assert (got.elementwise, got.reads, got.draws) == (False, ALL, True)


def test_who_wants_tensors_of_their_true_size_is_run_with_vmap():
    assert not traits(step(lambda u, state, ctx: ({**u, "fc.bias": u["fc.bias"] * u["fc.bias"][7]}, state))).elementwise


def test_a_step_by_coordinates_needs_no_vmap(monkeypatch):
    like = {"w": torch.zeros(2)}
    chain = BatchedChain([registry.parse("client", text) for text in ("add_proximal(0.5)", "sgd(lr=0.1)")], like)
    monkeypatch.setattr(torch.func, "vmap", lambda *args, **kwargs: pytest.fail("vmap"))
    stacked = {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    u, _ = chain.update(stacked, ((), ()), stacked, {"w": torch.zeros(1, 2)}, 0, torch.zeros(2, dtype=torch.int64), 0,
                        Facts())
    torch.testing.assert_close(u["w"], -0.1 * 1.5 * stacked["w"])  # g + 0.5 (w - 0), g = w


def test_hyper_parameters_of_each_client():
    """Rates 0.1 and 0.2, by columns and by vmap."""
    like, stacked = {"w": torch.zeros(2, 1)}, {"w": torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])}
    for specs in (["sgd(lr=0.1)"], ["sgd(lr=0.1)", "project_to_ball(inf)"]):
        chain = BatchedChain([registry.parse("client", text) for text in specs], like,
                             {(0, "lr"): torch.tensor([0.1, 0.2])})
        assert chain.traits.elementwise is (len(specs) == 1)
        u, _ = chain.update(stacked, ((),) * len(specs), stacked, stacked, 0, torch.zeros(2, dtype=torch.int64), 0,
                            Facts())
        torch.testing.assert_close(u["w"].flatten(), torch.tensor([-0.1, -0.2, -0.6, -0.8]))


@registry.piece("client")
def _late_clip(length: float = 0.1, after: int = 1) -> OnGradient:
    """Clips from a round on, by a Python `if`."""
    clip = registry.build("client", f"clip_gradient({length})")
    return OnGradient(lambda u, state, ctx: (u, state) if ctx.round < after else clip.update(u, (), ctx))


@registry.piece("client")
def _shared_count(lr: float = 0.1) -> Optimiser:
    """A rate that falls with a counter of shape [1], as a weight of the network has; each client begins elsewhere."""
    return Optimiser(lambda u, state, ctx: ({name: -lr / state * g for name, g in u.items()}, state + 1),
                     begin=lambda kept, ctx: torch.ones(1) + ctx.client)


class Gained(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.gain = torch.nn.Linear(64, 10), torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.fc(x.flatten(1)) * self.gain


@pytest.mark.parametrize("steps", [["_late_clip()", "sgd(lr=0.1)"], ["_shared_count()"]], ids="".join)
def test_whole_rounds_of_such_pieces(steps):
    """Taken for pieces by coordinates, they would mix clients without a word: here as many clients as classes."""
    models = {}
    for engine in ("sequential", "vectorised"):
        recipe = askew.Recipe(population="iid(clients=10)", client=steps, rounds=3, batch_size=50)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            task = build_task(recipe, model=Gained())
        simulation = Simulation(task, ENGINES[engine](task))
        while not simulation.finished:
            simulation.advance()
        models[engine] = simulation.view().params
    torch.testing.assert_close(models["vectorised"], models["sequential"], atol=1e-5, rtol=1e-4)
