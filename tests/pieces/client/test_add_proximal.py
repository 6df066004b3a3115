"""The proximal term is in the gradient, where it counts."""

import pytest
import torch
import torch.nn.functional as F

import askew
from askew.core import rng
from askew.core.client_piece import ClientChain
from askew.engine.build import build_task
from askew.engine.local import batches, train_locally
from askew.engine.start import initial_model
from askew.pieces.client import add_proximal, sgd


def test_by_hand(client, act):
    """2 + 0.5 (3 - 1) = 3; -1 + 0.5 (0 - 4) = -3."""
    assert act(add_proximal(0.5), (2, -1), client(w=(3, 0), start=(1, 4))) == [3.0, -3.0]


def test_the_steps_are_those_of_autograd_on_the_loss_with_the_penalty():
    """Three steps of a real client against torch.optim.SGD on loss + mu/2 ||w - w_t||^2, built by autograd.

    The first step cannot show the term (w = w_t), the later ones do: without it the result is another one.
    """
    mu, recipe = 3.0, askew.Recipe()
    task = build_task(recipe)
    start, mine, stream = initial_model(task), task.indices_of(2)[:30], rng.key(0, "client", 0, 2)

    def ours(step):
        trained = train_locally(task.module, start, task.data.train, mine, step, task.prepare, task.objective, epochs=1,
                                batch_size=10, stream=stream, round=0)
        return trained.model.params

    theirs = build_task(recipe).module
    began = {name: p.detach().clone() for name, p in theirs.named_parameters()}
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for batch in batches(mine, 1, 10, stream):
        loss = F.cross_entropy(theirs(task.data.train.x[batch].float() / 255), task.data.train.y[batch])
        penalty = sum(((p - began[name]) ** 2).sum() for name, p in theirs.named_parameters())
        optimiser.zero_grad()
        (loss + mu / 2 * penalty).backward()
        optimiser.step()
    got, without = ours(ClientChain([add_proximal(mu), sgd(0.1)])), ours(ClientChain([sgd(0.1)]))
    for name, p in theirs.named_parameters():
        torch.testing.assert_close(got[name], p.detach(), atol=1e-6, rtol=1e-5)
        assert not torch.allclose(got[name], without[name], atol=1e-4)


def test_a_stronger_term_keeps_the_clients_nearer():
    """E, the mean length of the clients' updates, shrinks with mu through a whole round."""
    lengths = []
    for mu in (0.0, 1.0, 5.0):
        step = [f"add_proximal({mu})", "sgd(lr=0.1)"]
        result = askew.run(askew.Recipe(rounds=1, client=step, probes=["update_norms()"]))
        lengths.append(next(v for key, v in result.records[0].items() if key.startswith("E")))
    assert lengths[0] > lengths[1] > lengths[2] > 0


def test_a_negative_mu_is_refused():
    with pytest.raises(askew.AskewError, match="add_proximal: mu must not be negative, got -1"):
        add_proximal(-1.0)
