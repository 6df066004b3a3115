"""An engine hands a round over in parts, in memory that it uses again: neither may show in what pieces make of it."""

from dataclasses import dataclass

import pytest
import torch

import askew
from askew import Adversity, Aggregator, Statistic, piece
from askew.core import registry
from askew.engine.build import build_task
from askew.engine.peers import Peers
from askew.engine.sequential import Sequential
from askew.pieces.statistic import Everything, MeanLoss, MeanOf, MeanPerStep, SignSum
from askew.rounds.shared import share
from askew.rounds.simulation import Simulation
from askew.testing import check_piece

UNEQUAL = askew.Recipe(population="power_law(clients=8, exponent=1.0, min_examples=10)", rounds=3, fraction=0.6)


@pytest.fixture(autouse=True)
def of_this_file(monkeypatch):
    registry.names("server")
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(found) for kind, found in registry._PIECES.items()})


def test_an_adversity_that_spoils_sees_the_whole_round():
    """Of a round's clients, the one with most examples flips its sign: one by one, each would be the one with most."""
    @piece("adversity")
    def largest_lies() -> Adversity:
        return Adversity(lambda ctx: ctx.examples == ctx.examples.max(),
                         spoil=lambda m: {**m, "update": {n: -v for n, v in m["update"].items()}})

    recipe = UNEQUAL.replace(adversity="largest_lies()")
    runs = {engine: askew.run(recipe, engine=engine) for engine in ("sequential", "parallel", "vectorised")}
    honest = askew.run(UNEQUAL)
    for result in runs.values():
        for name, v in runs["sequential"].model.items():
            torch.testing.assert_close(result.model[name], v, rtol=1e-4, atol=1e-5)
        assert result.records[-1]["loss"] != honest.records[-1]["loss"]


@pytest.mark.parametrize("weigh", [lambda who: who.examples / who.examples.sum(),
                                   lambda who: torch.softmax(-who.losses, dim=0)])
def test_weights_that_hang_on_who_else_comes_are_refused(weigh):
    """Handed over one by one, all would weigh 1."""
    @piece("server")
    def by_share() -> Aggregator:
        return Aggregator(lambda u, s, ctx: (ctx.cohort.mean, s), weigh=weigh)

    with pytest.raises(askew.AskewError, match=r"by_share weighs a client by the others .* each client by itself"):
        askew.run(UNEQUAL.replace(server="by_share()"))


@dataclass(frozen=True)
class Rows(Statistic):
    """All updates, as they are handed over."""

    keeps_all = True

    def add(self, total, message, senders):
        return [*(total or []), (senders.clients, message["update"])]

    def merge(self, a, b):
        return a + b

    def value(self, total):
        return {name: torch.cat([update[name] for _, update in total]) for name in total[0][1]}


@dataclass(frozen=True)
class Longest(Statistic):
    """A view of one row."""

    def add(self, total, message, senders):
        lengths = torch.cat([v.flatten(1) for v in message["update"].values()], dim=1).norm(dim=1)
        at = int(lengths.argmax())
        here = float(lengths[at]), {name: v[at] for name, v in message["update"].items()}
        return here if total is None else self.merge(total, here)

    def merge(self, a, b):
        return max(a, b, key=lambda each: each[0])

    def value(self, total):
        return total[1]


def test_a_statistic_may_keep_what_it_is_given():
    @piece("server")
    def mean_of_rows() -> Aggregator:
        return Aggregator(lambda u, s, ctx: ({n: v.mean(0) for n, v in ctx.cohort[Rows()].items()}, s), needs=[Rows()])

    @piece("server")
    def longest() -> Aggregator:
        return Aggregator(lambda u, s, ctx: ({n: 0.5 * v for n, v in ctx.cohort[Longest()].items()}, s),
                          needs=[Longest()])

    check_piece(mean_of_rows(), compiled=False)
    check_piece(longest(), compiled=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_statistics_of_several_processes_have_the_type_of_one(dtype):
    """Sums of several processes are taken in float64. A piece that multiplies by one would find its update of another
    type than the model."""
    needs = [Everything(), MeanLoss(), MeanOf("update"), MeanPerStep(), SignSum()]

    @piece("server")
    def in_need() -> askew.ServerPiece:
        return askew.ServerPiece(lambda u, s, ctx: (u, s), needs=needs)

    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10, dtype=dtype))
    task = build_task(UNEQUAL.replace(server=["mean()", "in_need()"]), model=network)
    simulation = Simulation(task, Sequential(task))
    gathering = simulation.begin()
    for _, chunk in simulation.engine.train([gathering.lane]):
        gathering.add(chunk)
    alone = gathering.cohorts[0]
    share(gathering, Peers(0, 1))
    for statistic in needs:
        torch.testing.assert_close(gathering.cohorts[0][statistic], alone[statistic], rtol=0, atol=0)
