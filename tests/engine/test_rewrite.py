"""A rewritten network gives the same scores and gradients."""

import copy

import pytest
import torch
from torch import nn

import askew
from askew.engine.build import build_task
from askew.engine.layers.fast import use_fast_layers
from askew.engine.rewrite import pool_before_relu, rewritten
from askew.models.local_response_norm import LocalResponseNorm


def network():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.MaxPool2d(3)), nn.Flatten(), nn.Linear(3, 4))


def kinds(module):
    return [type(layer).__name__ for layer in module.modules() if not list(layer.children())]


def test_the_rectifier_goes_behind_the_pooling():
    after = network()
    pool_before_relu(after)
    assert kinds(after) == ["Conv2d", "MaxPool2d", "ReLU", "Conv2d", "MaxPool2d", "ReLU", "Flatten", "Linear"]
    assert list(after.state_dict()) == list(network().state_dict())


@pytest.mark.parametrize("zeros", [False, True])
def test_scores_and_gradients_stay(zeros):
    """Bit for bit, also where windows hold nothing above 0 and where all their values are equal."""
    before = network()
    if zeros:
        with torch.no_grad():
            before[0].weight.zero_()
            before[0].bias.copy_(torch.tensor([-1.0, 0.0, 1.0]))
    after = copy.deepcopy(before)
    pool_before_relu(after)
    x = torch.randn(5, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(before(x), after(x))
    theirs, ours = (torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
                    for module in (before, after))
    assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))


class Own(nn.Sequential):
    """May apply its layers in another order."""

    def forward(self, x):
        return self[0](x)


def test_only_what_is_known_to_follow_is_exchanged():
    for layers in (Own(nn.ReLU(), nn.MaxPool2d(2)), nn.Sequential(nn.ReLU(), nn.AvgPool2d(2)),
                   nn.Sequential(nn.Tanh(), nn.MaxPool2d(2)),
                   nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, return_indices=True)),
                   nn.ModuleList([nn.ReLU(), nn.MaxPool2d(2)])):
        before = kinds(layers)
        pool_before_relu(layers)
        assert kinds(layers) == before


class Flip(nn.Module):
    def forward(self, x):
        return -x


@pytest.mark.parametrize("rewrite", [pool_before_relu, use_fast_layers])
@pytest.mark.parametrize("pair", [(nn.ReLU(), nn.MaxPool2d(2)), (nn.MaxPool2d(2), nn.ReLU()),
                                  (nn.ReLU(), LocalResponseNorm(3))], ids=str)
def test_a_layer_in_several_places_stands_between_others(rewrite, pair):
    shared = Flip()
    network = nn.Sequential(shared, pair[0], shared, pair[1])
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    expected = network(x)
    rewrite(network)
    assert torch.equal(network(x), expected)


@pytest.mark.parametrize("norm", [nn.LocalResponseNorm(3), LocalResponseNorm(3)], ids=["torch's", "ours"])
def test_networks_with_local_response_normalisation_get_fast_layers(norm):
    """Torch's own, too: rounding must not look like a layer in the wrong place."""
    own = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), norm, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
    made = rewritten(own, use_fast_layers, 5 * torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert kinds(made)[1:4] == ["Identity", "FastLocalResponseNorm", "FastMaxPool2d"]


def test_a_network_of_ones_own_is_left_alone():
    mine = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 10))
    task = build_task(askew.Recipe(), model=mine)
    assert kinds(task.module)[1:3] == kinds(mine)[1:3] == ["ReLU", "MaxPool2d"]
    assert task.module[0].weight is not mine[0].weight
    made = rewritten(task.module, pool_before_relu, torch.rand(3, 1, 8, 8))
    assert kinds(made)[1:3] == ["MaxPool2d", "ReLU"]
    assert made[0].weight is task.module[0].weight  # a start that is read later reaches both
    assert kinds(task.module)[1:3] == ["ReLU", "MaxPool2d"]
