"""Pieces of one's own take the place of ours by what they say of themselves, never by their names."""

import pytest
import torch

import askew
from askew.core import registry
from askew.core.client_piece import ClientPiece, Optimiser
from askew.core.server_piece import Aggregator, ServerPiece
from askew.engine.build import build_task
from askew.engine.choice import ENGINES
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import centralised, fedavgm, fedcd, fednnnn
from askew.pieces.statistic import SignSum
from askew.rounds.simulation import Simulation

BASE = askew.Recipe(population="power_law(clients=5, exponent=0.7)", fraction=0.8, batch_size=40, rounds=2,
                    model="mlp(hidden=[8])")
FORMS = {**ENGINES, "graphed": lambda task: Vectorised(task, graphed=True, compiled=False)}


@registry.piece("server")
def _plain_average() -> Aggregator:
    """Makes the update and says nothing of weights."""
    return Aggregator(lambda u, state, ctx: (ctx.cohort.mean, state))


@registry.piece("server")
def _majority(step: float = 0.01) -> Aggregator:
    """Makes the update out of the signs alone."""
    return Aggregator(lambda u, state, ctx: ({name: step * s.sign() for name, s in ctx.cohort[SignSum()].items()},
                                             state), needs=[SignSum()])


@registry.piece("client")
def _plain_descent(rate: float) -> Optimiser:
    """An optimiser of one's own: sgd under another name."""
    return Optimiser(lambda u, state, ctx: ({name: -rate * g for name, g in u.items()}, state))


@registry.piece("server")
def _in_halves() -> ServerPiece:
    """A coarse grid for what is sent out, with its own number of bytes."""
    return ServerPiece(lambda u, state, ctx: ({name: (2 * (ctx.params[name] + v)).round() / 2 - ctx.params[name]
                                               for name, v in u.items()}, state), payload=lambda model: 7)


def trained(recipe, form):
    task = build_task(recipe)
    simulation = Simulation(task, FORMS[form](task))
    while not simulation.finished:
        record = simulation.advance()
    return simulation, record


def assert_same(a, b, **tolerance):
    for name, v in a.items():
        torch.testing.assert_close(b[name], v, **tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_a_server_piece_that_makes_the_update_without_weights_counts_clients_by_their_examples(form):
    plain, _ = trained(BASE.replace(server=["_plain_average()"]), form)
    for weights, same in (("examples", True), ("uniform", False)):
        ours, _ = trained(BASE.replace(server=[f"mean('{weights}')"]), form)
        assert all(torch.equal(v, ours.view().params[name]) for name, v in plain.view().params.items()) == same


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recipe", [
    BASE.replace(server=["_majority()"]), fedavgm(BASE.replace(server=["_majority()"])),
    fednnnn(BASE.replace(server=["_plain_average()"])),
    fedcd(BASE.replace(server=["_plain_average()"]), milestones=[1]),
], ids=["alone", "momentum", "normalised", "pool"])
def test_and_every_engine_takes_it(recipe, form):
    reference, expected = trained(recipe, "sequential")
    ours, record = trained(recipe, form)
    assert record["accuracy"] == pytest.approx(expected["accuracy"], abs=0.01)
    if "_majority" not in str(recipe.server):  # rounding decides the sign of an update of nearly 0
        rounds = len(recipe.client) > 1  # to a grid: FedCD's quantiser
        assert_same(reference.view().params, ours.view().params, atol=0.01 if rounds else 1e-5, rtol=1e-4)


def test_run_takes_it_too():
    assert len(askew.run(BASE.replace(server=["_plain_average()"])).records) == BASE.rounds


def test_centralised_training_keeps_an_optimiser_of_ones_own():
    """It was dropped unless it was called sgd, and the run then had no piece that makes an update."""
    base = BASE.replace(client=["clip_gradient(10)", "_plain_descent(rate=0.3)", "project_to_ball(50.0)"])
    one = centralised(base)
    assert [str(spec) for spec in one.client] == ["_plain_descent(rate=0.3)"]
    theirs, ours = askew.run(one), askew.run(centralised(BASE.replace(client=["sgd(lr=0.3)"])))
    assert_same(ours.model, theirs.model, rtol=0, atol=0)


def test_the_server_and_the_twin_train_with_it_too():
    recipe = BASE.replace(population=BASE.population + "hold_out(0.2)", server=["mean()", "train_on_server()"],
                          probes=["weight_divergence()"], start="warm_up(until=0.3)")
    theirs = askew.run(recipe.replace(client=["add_proximal(0.1)", "_plain_descent(rate=0.3)"]))
    ours = askew.run(recipe.replace(client=["add_proximal(0.1)", "sgd(lr=0.3)"]))
    for expected, record in zip(ours.records, theirs.records, strict=True):
        assert record == {name: pytest.approx(value, rel=1e-4) for name, value in expected.items()}


@pytest.mark.parametrize("method", [fedavgm, fednnnn])
def test_what_compresses_the_model_stays_last_whatever_its_name(method):
    """All weights that go out lie on the grid, as the bytes that are counted for them assume."""
    recipe = method(BASE.replace(server=["mean()", "_in_halves()"]))
    assert recipe.server[-1].name == "_in_halves"
    simulation, record = trained(recipe, "sequential")
    assert record["bytes_down"] == 4 * 7
    for v in simulation.models[0].model.params.values():
        assert torch.equal(2 * v, (2 * v).round())


@registry.piece("server")
def _evaluate_blank() -> ServerPiece:
    """A view of one's own: what is evaluated is a network of zeros."""
    return ServerPiece(lambda u, state, ctx: (u, state),
                       view=lambda params, state: {name: 0 * v for name, v in params.items()})


LONGER = BASE.replace(rounds=8, client=["sgd(lr=0.5)"])


@pytest.mark.parametrize("recipe", [LONGER, fednnnn(LONGER), LONGER.replace(server=["mean()", "_evaluate_blank()"])],
                         ids=["model", "average", "own view"])
def test_devices_judge_the_model_that_is_evaluated(recipe):
    """On its own federation the probe that `compare` adds agrees with the run's numbers, whatever it evaluates."""
    probe = f"accuracy_on_devices_of(population='{BASE.population}')"
    result = askew.run(recipe.replace(probes=[probe], judge="devices"))
    for record in result.records:
        assert record["federation_device_accuracy_mean"] == pytest.approx(record["accuracy"], abs=1e-12)
    assert (result.accuracy < 0.2) == ("_evaluate_blank" in str(recipe.server))


MISTAKES = {
    "nothing": (lambda u, state, ctx: None, "returns None; `update` must return"),
    "no state": (lambda u, state, ctx: u, "`update` must return .update, state."),
    "a list": (lambda u, state, ctx: (list(u.values()), state), "must be a dict of the model's tensors by name"),
    "one too few": (lambda u, state, ctx: ({name: v for name, v in u.items() if name != "fc1.bias"}, state),
                    "returns nothing of 'fc1.bias', where the model has a tensor"),
    "one too many": (lambda u, state, ctx: ({**u, "x": u["fc1.bias"]}, state), "of 'x', where the model has nothing"),
    "a number": (lambda u, state, ctx: (dict.fromkeys(u, 0.5), state), "returns 0.5 of 'fc1.weight'"),
}


@registry.piece("client")
def _mistaken(how: str) -> ClientPiece:
    """An `update` that returns something else."""
    return ClientPiece(MISTAKES[how][0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", MISTAKES)
@pytest.mark.filterwarnings("ignore:engine vectorised")
def test_a_client_piece_that_returns_something_else_gets_a_line(how, form, refused):
    with refused(f"client: _mistaken .*{MISTAKES[how][1]}" if how != "a list" else MISTAKES[how][1]):
        trained(BASE.replace(rounds=1, client=[f"_mistaken('{how}')", "sgd(lr=0.1)"]), form)
