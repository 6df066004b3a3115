"""FedNova: by hand, FedAvg where all take as many steps, and the length of a walk with momentum."""

import pytest
import torch

import askew
from askew.core.by_hand import client_context, server_update
from askew.pieces.client import sgd
from askew.pieces.methods import fedavg, fednova
from askew.pieces.server import mean, mean_per_step
from askew.pieces.statistic import MeanPerStep


@pytest.mark.parametrize(("examples", "steps", "expected"), [
    ([1, 1], [2, 3], 5.0),  # per step 1 and 3, mean 2; walk 2.5
    ([1, 3], [2, 3], 6.875),  # per step (1 + 9) / 4 = 2.5; walk (2 + 9) / 4 = 2.75
    ([1, 1], [1, 9], 7.5)])  # per step 2 and 1, mean 1.5; walk 5
def test_by_hand(examples, steps, expected):
    update = server_update(mean_per_step(), [(2,), (9,)], examples=examples, steps=steps)
    assert float(update) == pytest.approx(expected)


def test_with_equal_steps_it_is_fedavg_by_hand():
    updates = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).tolist()
    for momentum in (0.0, 0.9):
        got = server_update(mean_per_step(momentum), updates, examples=[1, 5, 2, 2], steps=[7] * 4)
        torch.testing.assert_close(got, server_update(mean(), updates, examples=[1, 5, 2, 2]))


@pytest.mark.parametrize(("momentum", "steps", "walk"),
                         [(0.0, 5, 5.0), (0.5, 1, 1.0), (0.5, 2, 2.5), (0.5, 3, 4.25), (0.9, 3, 5.61)])
def test_the_length_of_a_walk(momentum, steps, walk):
    """Constant gradient 1, momentum 0.5: velocities 1, 1.5, 1.75: walks 1, 2.5, 4.25. Momentum 0.9: 1 + 1.9 + 2.71."""
    assert float(MeanPerStep(momentum).walk(torch.tensor(steps, dtype=torch.float64))) == pytest.approx(walk)


def test_the_walk_is_that_of_the_clients_optimiser():
    piece, total = sgd(1.0, momentum=0.8), 0.0
    velocity = piece.begin((), client_context([0.0]))
    for step in range(1, 6):
        u, velocity = piece.update({"w": torch.ones(1)}, velocity, client_context([0.0]))
        total -= float(u["w"])
        assert float(MeanPerStep(0.8).walk(torch.tensor(float(step)))) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_with_equal_clients_a_run_is_fedavgs(engine):
    recipe = askew.Recipe(population="iid(clients=5)", rounds=3, batch_size=32, epochs=2, model="mlp(hidden=[8])")
    plain, normalised = (askew.run(method(recipe), engine=engine).model for method in (fedavg, fednova))
    for name, v in plain.items():
        torch.testing.assert_close(normalised[name], v, atol=1e-6, rtol=1e-5)


def test_with_unequal_clients_it_is_not():
    recipe = askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20)", rounds=2, batch_size=32,
                          model="mlp(hidden=[8])")
    plain, normalised = (askew.run(method(recipe)).model for method in (fedavg, fednova))
    assert max(float((plain[name] - v).abs().max()) for name, v in normalised.items()) > 1e-3
