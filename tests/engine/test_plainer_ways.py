"""What fails on the way is done in a plainer way, with one line about it, and comes out the same."""

import pytest
import torch

import askew
from askew.core.client_piece import ClientPiece
from askew.core.registry import piece
from askew.core.tensors import ModelState, norm
from askew.engine import vectorised
from askew.engine.build import build_task
from askew.engine.graphed import GraphedSteps
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation

pytestmark = pytest.mark.slow  # whole runs: tens of them

RECIPE = askew.Recipe(population="power_law(clients=7, exponent=0.7, min_examples=9) + subset(0.3)", batch_size=10,
                      rounds=2)


def trained(make, recipe=RECIPE):
    task = build_task(recipe)
    simulation = Simulation(task, make(task))
    while not simulation.finished:
        simulation.advance()
    return simulation.view().params


def close(one, other):
    return all(torch.allclose(v, other[name], atol=1e-5, rtol=1e-4) for name, v in one.items())


@pytest.fixture(scope="module")
def reference():
    return trained(Sequential)


@pytest.mark.parametrize("graphed", [False, True])
def test_too_many_clients_for_the_memory_go_a_few_at_a_time(graphed, reference, monkeypatch):
    run, sizes = Vectorised._run, []

    def small(self, work):
        sizes.append(len(work.jobs))
        if len(work.jobs) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return run(self, work)

    monkeypatch.setattr(Vectorised, "_run", small)
    with pytest.warns(UserWarning, match="clients at once do not fit the memory of the device; . at a time"):
        assert close(trained(lambda task: Vectorised(task, graphed=graphed, compiled=False)), reference)
    assert sizes[:3] == [7, 3, 1]  # then all of the round by one or two, and so from then on
    assert max(sizes[2:]) <= 2


def test_without_graphs_then_one_by_one(reference, monkeypatch):
    def broken(self, *args):
        raise RuntimeError("a library gives up")

    monkeypatch.setattr(GraphedSteps, "run", broken)
    with pytest.warns(UserWarning,
                      match=r"cannot be trained as asked \(a library gives up\); the run goes on without CUDA graphs"):
        assert close(trained(lambda task: Vectorised(task, graphed=True, compiled=False)), reference)
    monkeypatch.setattr(Vectorised, "_step", broken)
    with pytest.warns(UserWarning, match="the run goes on one client after the other"):
        assert close(trained(lambda task: Vectorised(task, graphed=True, compiled=False)), reference)


def test_a_compiler_that_fails_is_done_without(reference, monkeypatch):
    def fails(function):
        def call(*args):
            raise RuntimeError("Triton: a scalar is out of range")

        return call

    monkeypatch.setattr(torch, "compile", fails)
    with pytest.warns(UserWarning, match=r"torch.compile fails for this network \(Triton: a scalar is out of range\)"):
        assert close(trained(lambda task: Vectorised(task, graphed=True, compiled=True)), reference)


@pytest.mark.parametrize(("rounds", "runs", "expected"),
                         [(50, 1, False), (17_500, 1, True), (1_000, 17, False), (1_000, 18, True)])
def test_long_runs_are_compiled_by_what_there_is_to_train(rounds, runs, expected):
    """1,437 examples a round: 25 million are reached after 17,398 rounds, of one run or of several together."""
    task = build_task(RECIPE.replace(rounds=rounds, population="iid(clients=7)"))
    assert vectorised.worth_compiling(task, runs) is expected


@pytest.mark.parametrize("examples", [1, 2, 3, 9])
def test_data_of_a_few_examples(examples):
    x, y = torch.randn(examples, 4), torch.zeros(examples, dtype=torch.int64)
    data = askew.Dataset.from_tensors((x, y), (x, y), classes=["a", "b"])
    for engine in ("sequential", "vectorised", "auto"):
        result = askew.run(askew.Recipe(population="pooled()", rounds=1), data=data, engine=engine)
        assert result.simulation.round == 1


@piece("client")
def _by_value(place: str) -> ClientPiece:
    """A Python `if` on the value of a tensor, which only one client at a time can take."""

    def longer(tensors):
        return {name: v * (1.5 if float(norm(tensors)) > 0.5 else 1.0) for name, v in tensors.items()}

    return ClientPiece(**{
        "enter": {"enter": lambda model, kept: ModelState(longer(model.params), model.buffers)},
        "begin": {"begin": lambda kept, ctx: torch.tensor(float(norm(ctx.params)))},
        "update": {"update": lambda u, state, ctx: (longer(u), state)},
        "end": {"end": lambda message, state, kept, ctx: ({**message, "update": longer(message["update"])}, kept)},
    }[place])


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("place", ["enter", "begin", "update", "end"])
def test_a_piece_that_looks_at_values_is_run_one_client_after_the_other(place, graphed):
    recipe = RECIPE.replace(client=["sgd(lr=0.1)", f"_by_value(place='{place}')"])
    with pytest.warns(UserWarning, match="the run goes on one client after the other"):
        got = trained(lambda task: Vectorised(task, graphed=graphed, compiled=False), recipe)
    assert close(got, trained(Sequential, recipe))
