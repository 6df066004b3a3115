"""SCAFFOLD: two clients by hand over two rounds, what it comes to with one step, both forms of the control variate."""

import pytest
import torch

import askew
from askew.core.by_hand import client_context, server_context
from askew.core.client_piece import ClientChain
from askew.core.server_piece import ServerChain
from askew.core.tensors import ModelState, add
from askew.pieces.client import correct_drift, sgd
from askew.pieces.methods import fedavg, scaffold
from askew.pieces.server import mean, update_control

LR, STEPS = 0.1, 2


def run_by_hand(client_pieces, curvature, optimum, rounds, lr=LR):
    """Clients with losses curvature / 2 (w - optimum)^2; [w, c, c_1, c_2, ...] after each round."""
    client, server = ClientChain(client_pieces), ServerChain([mean("uniform"), update_control()])
    w = {"w": torch.zeros(1)}
    state, memories, seen = server.init(w), [client.keep(ModelState(w)) for _ in curvature], []
    for number in range(rounds):
        shared, updates, changes = server.broadcast(state), [], []
        for k, (a, b) in enumerate(zip(curvature, optimum, strict=True)):
            now = w["w"].clone()
            inner = client.begin(memories[k], client_context(now.tolist(), shared=shared, steps=STEPS))
            for _ in range(STEPS):
                ctx = client_context(now.tolist(), w["w"].tolist(), number, shared=shared, steps=STEPS)
                u, inner = client.update({"w": a * (now - b)}, inner, ctx)
                now = now + u["w"]
            ctx = client_context(now.tolist(), w["w"].tolist(), number, shared=shared, steps=STEPS)
            message, memories[k] = client.end({"update": {"w": now - w["w"]}, "buffers": {}}, inner, memories[k], ctx)
            updates.append(message["update"]["w"].tolist())
            changes.append(message["control"]["w"])
        ctx = server_context(updates, w=w["w"].tolist(), needs=server.needs,
                             sent={"control": {"w": torch.stack(changes)}})
        u, state = server.update({}, state, ctx)
        w = add(w, u)
        seen.append([float(w["w"]), float(state[1]["w"]), *(float(memory[0]["w"]) for memory in memories)])
    return seen


def test_two_rounds_by_hand():
    """Losses (w - 1)^2 / 2 and 2 (w + 1)^2 / 2, lr 0.1, two steps each.

    Round 1, all controls 0. Client 1: 0 -> 0.1 (gradient -1) -> 0.19 (gradient -0.9); c_1 = -0.95.
    Client 2: 0 -> -0.2 (gradient 2) -> -0.36 (gradient 1.6); c_2 = 1.8. w = -0.085, c = 0.425.
    Round 2. Client 1 adds -c_1 + c = 1.375: gradient -1.085, step -0.029 to -0.114; gradient -1.114, step -0.0261 to
    -0.1401. c_1 = -1.0995. Client 2 adds 0.425 - 1.8 = -1.375: gradient 1.83, step -0.0455 to -0.1305; gradient 1.739,
    step -0.0364 to -0.1669; c_2 = 1.7845. w = -0.1535, c = 0.3425.
    """
    seen = run_by_hand([correct_drift(), sgd(LR)], [1.0, 2.0], [1.0, -1.0], 2)
    assert seen[0] == pytest.approx([-0.085, 0.425, -0.95, 1.8], abs=1e-6)
    assert seen[1] == pytest.approx([-0.1535, 0.3425, -1.0995, 1.7845], abs=1e-6)


def test_it_goes_to_the_optimum_of_the_sum_where_fedavg_does_not():
    """(w - 1) + 2 (w + 1) = 0: w = -1/3. FedAvg of two steps each stays at the fixed point of its maps:
    w = ((0.81 w + 0.19) + (0.64 w - 0.36)) / 2, w = -0.17 / 0.55."""
    seen = run_by_hand([correct_drift(), sgd(LR)], [1.0, 2.0], [1.0, -1.0], 200)
    assert seen[-1][0] == pytest.approx(-1 / 3, abs=1e-5)
    w = 0.0
    for _ in range(200):
        w = ((0.81 * w + 0.19) + (0.64 * w - 0.36)) / 2
    assert w == pytest.approx(-0.17 / 0.55)


def test_c_is_the_mean_of_all_clients_controls_after_full_rounds():
    for _, c, *controls in run_by_hand([correct_drift(), sgd(LR)], [1.0, 2.0, 0.5], [1.0, -1.0, 3.0], 4):
        assert c == pytest.approx(sum(controls) / 3, abs=1e-6)


def test_both_forms_are_one_for_plain_sgd_and_not_with_momentum():
    """With momentum m the second step is 1 + m times as long: the printed form takes that for gradient."""
    arguments = [1.0, 2.0], [1.0, -1.0], 3
    measured, printed = (run_by_hand([piece, sgd(LR)], *arguments) for piece in (correct_drift(), correct_drift(LR)))
    for one, other in zip(measured, printed, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    measured, printed = (run_by_hand([piece, sgd(LR, momentum=0.9)], *arguments)
                         for piece in (correct_drift(), correct_drift(LR)))
    # Client 1: 0 -> 0.1 (velocity -1) -> 0.28 (velocity -0.9 - 0.9 = -1.8): mean gradient
    # -0.95, printed -0.28 / 0.2 = -1.4.
    assert (measured[0][2], printed[0][2]) == pytest.approx((-0.95, -1.4), abs=1e-6)


BASE = askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20)", batch_size=0, rounds=4,
                    model="mlp(hidden=[8])")


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_with_one_step_and_all_clients_it_is_fedavg(engine):
    """The mean of the corrections -c_k + c is 0."""
    plain = askew.run(fedavg(BASE).replace(server=["mean('uniform')"]), engine=engine)
    corrected = askew.run(scaffold(BASE), engine=engine)
    for name, v in plain.model.items():
        torch.testing.assert_close(corrected.model[name], v, atol=1e-6, rtol=1e-5)
    memory, (_, control) = corrected.simulation.memory, corrected.simulation.models[0].chain
    rows = memory.rows(0, range(4))[0]
    for name, c in control.items():
        torch.testing.assert_close(c, rows[name].mean(dim=0), atol=1e-6, rtol=1e-5)


def test_with_a_part_of_the_clients_c_moves_by_their_share():
    """Four clients, two per round: c is the mean of all four controls, those that have not taken part counting as 0."""
    result = askew.run(scaffold(BASE.replace(fraction=0.5, epochs=3)))
    rows = result.simulation.memory.rows(0, range(4))[0]
    for name, c in result.simulation.models[0].chain[1].items():
        torch.testing.assert_close(c, rows[name].mean(dim=0), atol=1e-6, rtol=1e-5)


def test_one_side_without_the_other_is_refused(refused):
    with refused("correct_drift wants 'control' from the server"):
        askew.run(BASE.replace(client=["correct_drift()", "sgd(0.1)"]))
    with refused("update_control wants 'control' from the clients"):
        askew.run(BASE.replace(server=["mean()", "update_control()"]))
