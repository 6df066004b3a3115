"""The whole loop against an independent one: modules, torch.optim.SGD and state dicts, nothing of askew's but batches.

`plain_fedavg` below is federated averaging as one would write it by hand. It shares with askew only what a comparison
needs: the initial weights, who owns what, who is sampled, and the order of the batches.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import askew
from askew.core import rng
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample

BASE = askew.Recipe(population="dirichlet_per_class(clients=6, alpha=0.5) + subset(0.5)", rounds=3, batch_size=50,
                    model="mlp(hidden=[16])")


def plain_fedavg(task, *, rounds, lr, epochs, batch_size, weight_decay=0.0, momentum=0.0, decay=1.0, drops=(),
                 uniform=False, server_rate=1.0, server_momentum=0.0, seed=0):
    """The global model after these rounds."""
    model, train = copy.deepcopy(task.module), task.data.train
    velocity = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for number in range(rounds):
        total, sums = 0.0, {}
        for client in sample(task, number):
            local, mine = copy.deepcopy(model), torch.from_numpy(task.population.train[client])
            rate = lr * decay**number * 0.1 ** sum(number >= at for at in drops)
            optimiser = torch.optim.SGD(local.parameters(), lr=rate, weight_decay=weight_decay, momentum=momentum)
            for batch in batches(mine, epochs, batch_size, rng.key(seed, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(train.x[batch].float() / 255), train.y[batch]).backward()
                optimiser.step()
            weight = 1.0 if uniform else float(len(mine))
            total += weight
            for name, v in local.state_dict().items():
                sums[name] = sums.get(name, 0.0) + weight * v.double()
        average = {name: v / total for name, v in sums.items()}
        with torch.no_grad():
            for name, p in model.named_parameters():
                velocity[name] = server_momentum * velocity[name] + (average[name].float() - p)
                p += server_rate * velocity[name]
            for name, b in model.named_buffers():
                b.copy_(average[name].round() if b.dtype == torch.int64 else average[name])
    return model.state_dict()


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, v in expected.items():
        torch.testing.assert_close(got[name], v, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("changes", "plain"), [
    ({}, {}),
    ({"epochs": 3}, {"epochs": 3}),
    ({"batch_size": 0}, {"batch_size": 0}),
    ({"fraction": 0.5}, {}),
    ({"server": ["mean(weights='uniform')"]}, {"uniform": True}),
    ({"server": ["mean()", "scale(0.5)"]}, {"server_rate": 0.5}),
    ({"server": ["mean()", "momentum(0.7)"]}, {"server_momentum": 0.7}),
    ({"client": ["sgd(lr=0.3, weight_decay=0.05)"]}, {"weight_decay": 0.05}),
    ({"client": ["sgd(lr=0.3, momentum=0.8)"]}, {"momentum": 0.8}),
    ({"client": ["sgd(lr=decay(0.3, 0.5))"]}, {"decay": 0.5}),
    ({"client": ["sgd(lr=drops(0.3, at=[1, 2]))"]}, {"drops": (1, 2)}),
    ({"seed": 3}, {"seed": 3}),
    ({"fraction": 0.4, "epochs": 2, "seed": 1, "client": ["sgd(lr=decay(0.3, 0.9), momentum=0.5, weight_decay=0.01)"],
      "server": ["mean()", "momentum(0.5)", "scale(0.8)"]},
     {"epochs": 2, "seed": 1, "momentum": 0.5, "weight_decay": 0.01, "decay": 0.9, "server_momentum": 0.5,
      "server_rate": 0.8}),
], ids=lambda value: ",".join(value) if isinstance(value, dict) else None)
def test_the_loop_equals_plain_pytorch(changes, plain):
    recipe = BASE.replace(**{"client": ["sgd(lr=0.3)"], **changes})
    got = askew.run(recipe)
    expected = plain_fedavg(build_task(recipe), **{"rounds": 3, "lr": 0.3, "epochs": 1, "batch_size": 50, **plain})
    assert_same(got.model, expected)


def test_each_of_these_settings_changes_the_result():
    """So that the comparison above cannot pass by a setting that neither side applies."""
    base = askew.run(BASE).model["fc1.weight"]
    for changes in ({"epochs": 3}, {"fraction": 0.5}, {"server": ["mean(weights='uniform')"]}, {"seed": 3},
                    {"server": ["mean()", "scale(0.5)"]}, {"client": ["sgd(lr=0.1, weight_decay=0.05)"]},
                    {"client": ["sgd(lr=0.1, momentum=0.8)"]}, {"client": ["sgd(lr=decay(0.1, 0.5))"]}):
        assert not torch.allclose(askew.run(BASE.replace(**changes)).model["fc1.weight"], base, atol=1e-4), changes


class Normed(nn.Module):
    """A small convolutional network with BatchNorm, as a user would write one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * 16, 10)

    def forward(self, x):
        return self.out(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1))


@pytest.fixture(scope="module")
def normed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Normed()


@pytest.mark.parametrize(("server", "plain"), [
    (["mean()"], {}),
    (["mean(weights='uniform')"], {"uniform": True}),
    (["mean()", "momentum(0.9)", "scale(0.7)"], {"server_momentum": 0.9, "server_rate": 0.7}),
])
def test_batchnorm_statistics_are_averaged_beside_the_chain(normed, server, plain):
    """The buffers are the clients' weighted mean; neither momentum nor the server's rate touches them."""
    recipe = BASE.replace(server=server, rounds=2, fraction=0.5)
    got = askew.run(recipe, model=normed)
    expected = plain_fedavg(build_task(recipe, model=normed), rounds=2, lr=0.1, epochs=1, batch_size=50, **plain)
    assert {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} < got.model.keys()
    assert_same(got.model, expected)
    assert float(got.model["norm.running_mean"].abs().max()) > 1e-3


def test_the_module_that_was_given_is_left_alone(normed):
    before = copy.deepcopy(normed.state_dict())
    askew.run(BASE.replace(rounds=1), model=normed)
    assert all(torch.equal(v, before[name]) for name, v in normed.state_dict().items())


def test_the_saved_model_loads_into_the_module_and_scores_what_was_reported(normed, tmp_path):
    from safetensors.torch import load_file

    result = askew.run(BASE.replace(rounds=2), model=normed, out=tmp_path / "run")
    mine = Normed()
    mine.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    mine.eval()
    test = askew.data.digits().test
    right = (mine(test.x.float() / 255).argmax(dim=1) == test.y).float().mean()
    assert result.accuracy == pytest.approx(float(right))
