"""The TensorFlow tutorial's normalisation, pooling and initialisation, against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from askew.models import mcmahan_cifar_cnn


@pytest.fixture
def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mcmahan_cifar_cnn((3, 24, 24), 10)


@pytest.mark.parametrize("layer", ["lrn1", "lrn2"])
def test_local_response_normalisation_by_hand(network: nn.Module, layer: str) -> None:
    out = network.get_submodule(layer)(torch.full((1, 12, 1, 1), 30.0)).flatten()
    # Channel 0 has 5 neighbours within radius 4: 1 + 0.001 / 9 * 5 * 900 = 1.5 and 30 / 1.5^0.75 = 22.1336.
    # Channel 5 has 9: 1 + 0.001 / 9 * 9 * 900 = 1.9 and 30 / 1.9^0.75 = 18.5377.
    assert out[0].item() == pytest.approx(22.1336, abs=1e-3)
    assert out[5].item() == pytest.approx(18.5377, abs=1e-3)


def test_local_response_normalisation_is_tensorflows_formula(network: nn.Module) -> None:
    x = 20 * torch.randn(2, 64, 3, 3, generator=torch.Generator().manual_seed(1))
    expected = torch.empty_like(x)
    for channel in range(64):
        near = x[:, max(0, channel - 4):channel + 5]
        expected[:, channel] = x[:, channel] / (1.0 + 0.001 / 9.0 * near.square().sum(dim=1)) ** 0.75
    torch.testing.assert_close(network.get_submodule("lrn1")(x), expected)


@pytest.mark.parametrize("layer", ["pool1", "pool2"])
def test_pooling_windows_start_at_the_corner(network: nn.Module, layer: str) -> None:
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    # Windows of 3x3 from (0, 0), (0, 2), (2, 0) and (2, 2), cut off at the lower and right edge.
    assert network.get_submodule(layer)(image).flatten().tolist() == [10.0, 11.0, 14.0, 15.0]


def test_order_of_pooling_and_normalisation(network: nn.Module) -> None:
    names = [name for name, _ in network.named_children()]
    assert names[:8] == ["conv1", "relu1", "pool1", "lrn1", "conv2", "relu2", "lrn2", "pool2"]


@pytest.mark.parametrize(("layer", "deviation", "bias"), [
    ("conv1", 0.05, 0.0), ("conv2", 0.05, 0.1), ("fc1", 0.04, 0.1), ("fc2", 0.04, 0.1), ("fc3", 1 / 192, 0.0)])
def test_tutorial_initialisation(network: nn.Module, layer: str, deviation: float, bias: float) -> None:
    weight = network.get_parameter(f"{layer}.weight")
    assert weight.abs().max() <= 2 * deviation
    # A normal distribution cut off at 2 standard deviations has 0.8796 of the standard deviation left.
    error = 3 * 0.8796 * deviation / (2 * weight.numel()) ** 0.5
    assert weight.std().item() == pytest.approx(0.8796 * deviation, abs=error)
    assert weight.mean().item() == pytest.approx(0.0, abs=4 * deviation / weight.numel() ** 0.5)
    assert network.get_parameter(f"{layer}.bias").tolist() == pytest.approx([bias] * len(weight))


def test_torch_initialisation_is_that_of_the_layers() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = mcmahan_cifar_cnn((3, 24, 24), 10, init="torch")
        torch.manual_seed(0)
        conv1 = nn.Conv2d(3, 64, 5, padding=2)
    assert torch.equal(network.get_parameter("conv1.weight"), conv1.weight)
    assert torch.equal(network.get_parameter("conv1.bias"), conv1.bias)
