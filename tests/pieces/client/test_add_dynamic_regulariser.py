"""FedDyn: two clients by hand over two rounds, its fixed point, and the authors' form of the same sums."""

import pytest
import torch

import askew
from askew.core.by_hand import client_context, server_context
from askew.core.client_piece import ClientChain
from askew.core.server_piece import ServerChain
from askew.core.tensors import ModelState, add
from askew.pieces.client import add_dynamic_regulariser, sgd
from askew.pieces.methods import feddyn
from askew.pieces.server import correct_dynamically, mean


def run_by_hand(alpha, curvature, optimum, rounds, *, lr=0.1, steps=2, taking_part=None):
    """Clients with losses curvature / 2 (w - optimum)^2; [w, h, h_1, h_2, ...] after each round."""
    client = ClientChain([add_dynamic_regulariser(alpha), sgd(lr)])
    server = ServerChain([mean("uniform"), correct_dynamically(alpha)])
    w = {"w": torch.zeros(1)}
    state, memories, seen = server.init(w), [client.keep(ModelState(w)) for _ in curvature], []
    for number in range(rounds):
        updates = []
        for k in range(len(curvature)) if taking_part is None else taking_part[number]:
            now, inner = w["w"].clone(), client.begin(memories[k], client_context(w["w"].tolist()))
            for _ in range(steps):
                u, inner = client.update({"w": curvature[k] * (now - optimum[k])}, inner,
                                         client_context(now.tolist(), w["w"].tolist()))
                now = now + u["w"]
            ctx = client_context(now.tolist(), w["w"].tolist())
            message, memories[k] = client.end({"update": {"w": now - w["w"]}, "buffers": {}}, inner, memories[k], ctx)
            updates.append(message["update"]["w"].tolist())
        u, state = server.update({}, state, server_context(updates, w=w["w"].tolist(), clients=len(curvature)))
        w = add(w, u)
        seen.append([float(w["w"]), float(state[1]["w"]), *(float(memory[0]["w"]) for memory in memories)])
    return seen


def test_two_rounds_by_hand():
    """Losses (w - 1)^2 / 2 and 2 (w + 1)^2 / 2, alpha 0.5, lr 0.1, two steps each.

    Round 1. Client 1: gradient -1, to 0.1; -0.9 + 0.5 * 0.1 = -0.85, to 0.185; h_1 = -0.0925.
    Client 2: gradient 2, to -0.2; 1.6 - 0.5 * 0.2 = 1.5, to -0.35; h_2 = 0.175.
    u = -0.0825; h = 0.04125; w = -0.0825 - 0.0825 = -0.165.
    Round 2. Client 1: -1.165 + 0.0925 = -1.0725, to -0.05775; -1.05775 + 0.0925 + 0.5 * 0.10725 = -0.911625,
    to 0.0334125; update 0.1984125, h_1 = -0.0925 - 0.09920625 = -0.19170625.
    Client 2: 1.67 - 0.175 = 1.495, to -0.3145; 1.371 - 0.175 - 0.5 * 0.1495 = 1.12125, to -0.426625; update -0.261625,
    h_2 = 0.175 + 0.1308125 = 0.3058125.
    u = -0.03160625; h = 0.04125 + 0.015803125 = 0.057053125; w = -0.165 - 0.03160625 - 0.11410625 = -0.3107125.
    """
    seen = run_by_hand(0.5, [1.0, 2.0], [1.0, -1.0], 2)
    assert seen[0] == pytest.approx([-0.165, 0.04125, -0.0925, 0.175], abs=1e-6)
    assert seen[1] == pytest.approx([-0.3107125, 0.057053125, -0.19170625, 0.3058125], abs=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 2.0])
def test_its_fixed_point_is_the_optimum_of_the_sum(alpha):
    """(w - 1) + 2 (w + 1) = 0: w = -1/3, where each h_k is the client's gradient, -4/3 and 4/3, and h = mean h_k = 0.

    Whatever alpha, and however far from their own optima the clients' few steps stop: paper, section 2.
    """
    w, h, *gradients = run_by_hand(alpha, [1.0, 2.0], [1.0, -1.0], 400)[-1]
    assert [w, h, *gradients] == pytest.approx([-1 / 3, 0.0, -4 / 3, 4 / 3], abs=1e-4)


def test_h_is_the_mean_of_all_clients_h_also_where_some_are_away():
    """The authors' program adds the mean of all clients' sums of (w_k - w_t), which is -h / alpha: the same number."""
    for _, h, *rows in run_by_hand(0.5, [1.0, 2.0, 0.5], [1.0, -1.0, 3.0], 4, taking_part=[(0, 1), (2,), (0, 2), (1,)]):
        assert h == pytest.approx(sum(rows) / 3, abs=1e-6)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_the_same_in_a_run(engine):
    recipe = feddyn(askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20)", batch_size=32,
                                 rounds=3, fraction=0.5, model="mlp(hidden=[8])"), alpha=0.3)
    simulation = askew.run(recipe, engine=engine).simulation
    rows = simulation.memory.rows(0, range(4))[0]
    for name, h in simulation.models[0].chain[1].items():
        assert float(h.norm()) > 0
        torch.testing.assert_close(h, rows[name].mean(dim=0), atol=1e-6, rtol=1e-4)
