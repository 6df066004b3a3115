"""Which tensors belong together."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import askew.models  # noqa: F401  (files the networks under their names)
from askew.core import registry
from askew.pieces.probe.layer_groups import group_norms, group_parameters


def grouped(module, per="group"):
    return group_parameters(module, [name for name, _ in module.named_parameters()], per)


def test_normalisation_belongs_to_the_layer_before_it():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LayerNorm([2, 4, 4]), nn.Flatten(), nn.Linear(32, 4),
                        nn.BatchNorm1d(4), nn.PReLU(), nn.Linear(4, 2))
    assert grouped(net) == {
        "conv": ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"],
        "fc": ["4.weight", "4.bias", "5.weight", "5.bias", "6.weight", "7.weight", "7.bias"]}


def test_what_comes_before_every_layer_belongs_to_the_first():
    net = nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 2, 3, bias=False), nn.Flatten(), nn.Linear(8, 2, bias=False))
    assert grouped(net) == {"conv": ["0.weight", "0.bias", "1.weight"], "fc": ["3.weight"]}
    assert grouped(nn.Sequential(nn.BatchNorm1d(3))) == {"other": ["0.weight", "0.bias"]}


def test_layers_of_other_kinds_are_other():
    net = nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.GRU(4, 3), nn.Linear(3, 2))
    groups = grouped(net)
    assert list(groups) == ["other", "fc"]
    assert groups["fc"] == ["3.weight", "3.bias"]
    assert "1.weight" in groups["other"]


def test_a_reparametrised_weight_stays_with_its_layer():
    net = nn.Sequential(parametrizations.weight_norm(nn.Conv2d(1, 2, 3)), nn.Flatten(), nn.Linear(8, 2))
    assert list(grouped(net, "layer")) == ["0", "2"]
    assert len(grouped(net, "layer")["0"]) == 3  # bias, length and direction
    assert list(grouped(net)) == ["conv", "fc"]


def test_layers_and_tensors():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    assert grouped(net, "layer") == {n: [f"{n}.weight", f"{n}.bias"] for n in ("0", "1", "3")}
    assert list(grouped(net, "tensor")) == [name for name, _ in net.named_parameters()]
    assert grouped(nn.Linear(2, 2), "layer") == {"Linear": ["weight", "bias"]}


@pytest.mark.parametrize(("name", "shape", "groups"), [
    ("mlp(hidden=[8])", (1, 8, 8), ["fc"]), ("small_cnn", (1, 8, 8), ["conv", "fc"]),
    ("mcmahan_mnist_cnn", (1, 28, 28), ["conv", "fc"]), ("mcmahan_cifar_cnn", (3, 32, 32), ["conv", "fc"]),
    ("fednnnn_mnist_cnn", (1, 28, 28), ["conv", "fc"]), ("fednnnn_cifar_cnn", (3, 32, 32), ["conv", "fc"]),
    ("resnet20_fixup", (3, 32, 32), ["conv", "fc"]), ("fedcd_cnn", (3, 32, 32), ["conv", "fc"]),
    ("resnet20", (3, 32, 32), ["conv", "fc"]), ("hello_edge_cnn", (1, 50, 10), ["conv", "fc"])])
@pytest.mark.parametrize("per", ["group", "layer", "tensor"])
def test_every_tensor_of_the_networks_is_in_one_group(name, shape, groups, per):
    module = registry.build("model", name, input_shape=shape, num_classes=10)
    made = grouped(module, per)
    names = [name for name, _ in module.named_parameters()]
    assert sorted(n for mine in made.values() for n in mine) == sorted(names)
    if per == "group":
        assert list(made) == groups
        linear = {n for path, layer in module.named_modules() if isinstance(layer, nn.Linear)
                  for n in (f"{path}.weight", f"{path}.bias")}
        assert linear <= set(made["fc"])


def test_norms_by_hand():
    tensors = {"a": torch.tensor([[3.0], [0.0]]), "b": torch.tensor([4.0]), "c": torch.tensor([12.0])}
    norms = group_norms(tensors, {"ab": ["a", "b"], "c": ["c"], "all": ["a", "b", "c"]})
    assert {name: v.item() for name, v in norms.items()} == {"ab": 5.0, "c": 12.0, "all": 13.0}
