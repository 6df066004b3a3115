"""Training at the server (ozdayi2020, section 3.1)."""

import pytest
import torch
import torch.nn.functional as F

import askew
from askew.core import rng
from askew.core.client_piece import Plan
from askew.core.server_piece import ServerChain
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.pieces.server import evaluate_average, mean, train_on_server


def test_the_update_ends_where_the_training_ended(server):
    """w = 1, mean update 2; the server's training adds 10 an epoch: from 3 to 23, so that the update is 22."""
    seen = []

    def train(params, epochs):
        seen.append((params["w"].tolist(), epochs))
        return {"w": params["w"] + 10.0 * epochs}

    ctx = server([(1,), (3,)], w=(1.0,), train=train)
    u, _ = ServerChain([mean(), train_on_server(epochs=2)]).update({}, ((), ()), ctx)
    assert seen == [([3.0], 2)]
    assert u["w"].tolist() == [22.0]


def test_a_round_is_the_average_fine_tuned_with_plain_torch_sgd():
    """The model after a round equals torch.optim.SGD from the plain average on the held-out examples: 2 epochs, in
    the order of the server's stream, with the clients' rate and weight decay but without their proximal term."""
    base = askew.Recipe(population="shards(clients=10, shards_per_client=2) + hold_out(0.05)", rounds=1, batch_size=16,
                        client=["add_proximal(0.5)", "sgd(lr=0.2, weight_decay=0.01)"])
    average = askew.run(base)
    task = build_task(base)
    with torch.no_grad():
        for name, p in task.module.named_parameters():
            p.copy_(average.model[name])
    optimiser = torch.optim.SGD(task.module.parameters(), lr=0.2, weight_decay=0.01)
    server = torch.from_numpy(task.population.server)
    assert len(server) == 72  # 5% of 1,437
    assert set(task.data.train.y[server].bincount().tolist()) == {7, 8}  # balanced
    for batch in batches(server, 2, 16, rng.key(0, "server/0", 0)):
        optimiser.zero_grad()
        F.cross_entropy(task.module(task.data.train.x[batch].float() / 255), task.data.train.y[batch]).backward()
        optimiser.step()
    got = askew.run(base.replace(server=["mean()", "train_on_server(epochs=2)"])).model
    for name, p in task.module.named_parameters():
        torch.testing.assert_close(got[name], p.detach(), atol=1e-6, rtol=1e-5)


def test_without_examples_at_the_server_it_is_refused():
    with pytest.raises(askew.AskewError,
                       match=r"train_on_server needs examples at the server; write population = .* hold_out"):
        ServerChain([mean(), train_on_server()]).check(Plan(cohort_size=2, server_examples=0))
    with pytest.raises(askew.AskewError, match="epochs must be at least 1, got 0"):
        train_on_server(0)


@pytest.mark.parametrize("pieces", [[mean(), train_on_server(), evaluate_average()],
                                    [mean(), evaluate_average(), train_on_server()]])
def test_it_does_not_go_with_evaluating_the_plain_average(pieces):
    """In either order the evaluated model would lack the server's training."""
    with pytest.raises(askew.AskewError,
                       match="would judge the average without the server's training; use one of the two"):
        ServerChain(pieces).check(Plan(cohort_size=2, server_examples=10))
