"""FedNNNN as composed, round by round: eq. (12)-(13), and what happens when the clients cancel each other out."""

import pytest
import torch
from torch import nn

import askew
from askew.core import registry
from askew.core.client_piece import Optimiser
from askew.core.population import Ownership, Population
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.core.statistic import Senders
from askew.core.tensors import add
from askew.engine.build import build_task
from askew.engine.choice import ENGINES
from askew.pieces.methods import fednnnn
from askew.pieces.server import evaluate_average, mean, momentum, rescale_to_mean_norm, scale
from askew.rounds.simulation import Simulation


def rounds(piece, server, updates_of_rounds, w=(0.0, 0.0)):
    """(model, evaluated model) after each round."""
    params = {"w": torch.tensor(w)}
    state, seen = piece.init(params), []
    for number, updates in enumerate(updates_of_rounds):
        ctx = server(updates, w=params["w"].tolist(), round=number)
        u, state = piece.update({}, state, ctx)
        params = add(params, u)
        seen.append((params["w"].tolist(), piece.view(params, state)["w"].tolist()))
    return seen


APART, OPPOSITE, TOGETHER = [(3, 4), (3, -4)], [(3, 4), (-3, -4)], [(0, 2), (0, 2)]


def test_a_round_that_cancels_leaves_the_model_and_the_momentum(server):
    """beta 1, gamma 0.5.

    Round 1: mean (3, 0), N = 3, E = 5: d = (5, 0), w = (5, 0); evaluated (3, 0).
    Round 2: mean (0, 0), N = 0: w and d stay (5, 0); evaluated (5, 0), the plain average. Before, w went to (7.5, 0).
    Round 3: mean (0, 2), N = E = 2: d = (2.5, 2), w = (7.5, 2); evaluated (5, 2).
    """
    piece = ServerChain([mean(), rescale_to_mean_norm(1.0), momentum(0.5), evaluate_average()])
    assert rounds(piece, server, [APART, OPPOSITE, TOGETHER]) == [
        ([5.0, 0.0], [3.0, 0.0]), ([5.0, 0.0], [5.0, 0.0]), ([7.5, 2.0], [5.0, 2.0])]


@pytest.mark.parametrize("nesterov", [False, True])
def test_in_nesterovs_form_and_behind_other_pieces_too(server, nesterov):
    piece = ServerChain([mean(), rescale_to_mean_norm(1.0), scale(2.0), momentum(0.5, nesterov), scale(3.0)])
    first, second = rounds(piece, server, [APART, OPPOSITE])
    assert first[0] != [0.0, 0.0]
    assert second == first


def test_momentum_alone_goes_on_where_the_mean_happens_to_be_0(server):
    """Eq. (10)-(11) have no such rule: d = 3, then 0.5 * 3 + 0 = 1.5."""
    seen = [model for model, _ in rounds(ServerChain([mean(), momentum(0.5)]), server, [APART, OPPOSITE])]
    assert seen == [[3.0, 0.0], [4.5, 0.0]]


def test_layer_by_layer_only_the_layer_that_cancels_stays():
    """Tensor a cancels in round 2, b does not: d of a stays (5), b takes 0.5 * 1 + 1 = 1.5."""
    from askew.core import rng
    from askew.core.cohort import Cohort

    piece = ServerChain([mean(), rescale_to_mean_norm(1.0, per="layer"), momentum(0.5)])
    like = {"a": torch.zeros(2), "b": torch.zeros(1)}
    state, steps = piece.init(like), []
    for a in (APART, OPPOSITE):
        cohort = Cohort(like)
        ones = torch.ones(2)
        cohort.add({"update": {"a": torch.tensor(a, dtype=torch.float32), "b": torch.ones(2, 1)}},
                   Senders([0, 1], *[ones] * 4), ones)
        u, state = piece.update({}, state,
                                ServerContext(like, 0, 2, rng.key(0, "server"), cohort, lambda params, epochs: params))
        steps.append((u["a"].tolist(), u["b"].tolist()))
    assert steps == [([5.0, 0.0], [1.0]), ([0.0, 0.0], [1.5])]
    assert state[2]["a"].tolist() == [5.0, 0.0]


def test_two_pieces_may_each_hold_a_tensor_still(server):
    hold = ServerPiece(lambda u, state, ctx: (u, state),
                       still=lambda u, ctx: {name: torch.tensor(ctx.round == 1) for name in u})
    for order in ([hold, rescale_to_mean_norm()], [rescale_to_mean_norm(), hold]):
        chain = ServerChain([mean(), *order, momentum(0.5)])
        seen = [model for model, _ in rounds(chain, server, [APART, TOGETHER, OPPOSITE])]
        assert seen == [[5.0, 0.0]] * 3


@registry.piece("client")
def _push(cancel_from: int) -> Optimiser:
    """Clients with label 1 go up, those with label 0 down; in the first rounds all go up."""

    def update(u, state, ctx):
        ones = torch.sign(u["weight"][1:2])  # the gradient's sign tells the label; only its sign is used
        return {name: torch.ones_like(v) * (ones.sum() if ctx.round >= cancel_from else 1.0)
                for name, v in u.items()}, state

    return Optimiser(update)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_whole_round_of_the_composed_method(engine):
    """Two clients of one example each, four weights. Round 1: both move each by 1, N = E = 2, d = 0.7 each; w = 0.7.

    Round 2: one client moves by +1, the other by -1: N = 0. Model and evaluation stay at 0.7 (before: 0.7 + 0.8 * 0.7).
    """
    x, y = torch.ones(2, 1), torch.tensor([0, 1])
    data = askew.Dataset.from_tensors((x, y), (x, y))
    network = nn.Linear(1, 2)
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    population = Population.of(Ownership.of([[0], [1]]), y.numpy(), 2)
    recipe = fednnnn(askew.Recipe(client=["_push(cancel_from=1)"], batch_size=0, epochs=1, rounds=2))
    task = build_task(recipe, data=data, population=population, model=network)
    simulation = Simulation(task, ENGINES[engine](task))
    for evaluated in (1.0, 0.7):
        simulation.advance()
        for v in simulation.models[0].model.params.values():
            torch.testing.assert_close(v, torch.full_like(v, 0.7))
        for v in simulation.view().params.values():
            torch.testing.assert_close(v, torch.full_like(v, evaluated))
