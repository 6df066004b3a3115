"""Adam at the client: by hand, and against torch.optim.Adam over whole local trainings."""

import copy

import pytest
import torch
import torch.nn.functional as F

import askew
from askew.core import rng
from askew.core.by_hand import client_context
from askew.core.tensors import ModelState
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample
from askew.pieces.client import adam

BASE = askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20) + subset(0.3)", rounds=3,
                    batch_size=32, epochs=2, fraction=0.5, model="mlp(hidden=[8])")


def plain(recipe, make, kept):
    """FedAvg by hand with an optimiser of torch's per client, new in each round or kept over all of them."""
    task = build_task(recipe)
    model, train, optimisers = copy.deepcopy(task.module), task.data.train, {}
    for number in range(recipe.rounds):
        total, sums = 0, {}
        for client in sample(task, number):
            if client not in optimisers or not kept:
                local = copy.deepcopy(model)
                optimisers[client] = local, make(local.parameters())
            local, optimiser = optimisers[client]
            local.load_state_dict(model.state_dict())
            indices = torch.from_numpy(task.population.train[client])
            for batch in batches(indices, recipe.epochs, recipe.batch_size, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(train.x[batch].float() / 255), train.y[batch]).backward()
                optimiser.step()
            total += len(indices)
            for name, v in local.state_dict().items():
                sums[name] = sums.get(name, 0) + len(indices) * v.double()
        model.load_state_dict({name: (v / total).float() for name, v in sums.items()})
    return model.state_dict()


def test_two_steps_by_hand():
    """beta1 0.5, beta2 0.75, lr 0.1, gradients 2 and 4.

    Step 1: m = 1, v = 1; m' = 1 / 0.5 = 2, v' = 1 / 0.25 = 4; update -0.1 * 2 / 2 = -0.1.
    Step 2: m = 2.5, v = 0.75 + 4 = 4.75; m' = 2.5 / 0.75, v' = 4.75 / 0.4375; update -0.1 * 3.3333 / 3.2950 = -0.10116.
    """
    piece, ctx = adam(0.1, beta1=0.5, beta2=0.75), client_context([0.0])
    state = piece.begin(piece.keep(ModelState(ctx.start)), ctx)
    seen = []
    for gradient in (2.0, 4.0):
        u, state = piece.update({"w": torch.tensor([gradient])}, state, ctx)
        seen.append(float(u["w"]))
    assert seen == pytest.approx([-0.1, -0.1 * (2.5 / 0.75) / (4.75 / 0.4375) ** 0.5], rel=1e-5)
    assert float(state["t"]) == 2


@pytest.mark.parametrize("kept", [False, True], ids=["afresh", "kept"])
def test_it_is_torchs_adam(kept):
    """Half of the clients in each of three rounds: kept moments and their count of steps go on where the client's last
    round, not the federation's, has left them."""
    step = [f"adam(lr=0.01, beta1=0.8, beta2=0.9, epsilon=1e-4, keep_state={kept})"]
    recipe = BASE.replace(client=step)
    expected = plain(recipe, lambda weights: torch.optim.Adam(weights, 0.01, (0.8, 0.9), 1e-4), kept)
    for engine in ("sequential", "vectorised"):
        got = askew.run(recipe, engine=engine).model
        for name, v in expected.items():
            torch.testing.assert_close(got[name], v, atol=2e-5, rtol=1e-4)


def test_kept_momentum_is_torchs_sgd_kept_per_client():
    recipe = BASE.replace(client=["sgd(lr=0.1, momentum=0.9, keep_momentum=true)"])
    expected = plain(recipe, lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9), kept=True)
    afresh = plain(recipe, lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9), kept=False)
    got = askew.run(recipe).model
    assert (got["fc2.weight"] - afresh["fc2.weight"]).norm() > 0.01
    for name, v in expected.items():
        torch.testing.assert_close(got[name], v, atol=2e-5, rtol=1e-4)


def test_numbers_out_of_range_are_refused(refused):
    with refused(r"adam: beta1 must be in \[0, 1\), got 1.0"):
        adam(0.1, beta1=1.0)
