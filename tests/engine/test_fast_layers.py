"""Layers with kernels of our own take the place of torch's, and nothing else changes."""

import copy

import pytest
import torch
from torch import nn

from askew.engine.layers.fast import FastLocalResponseNorm, FastMaxPool2d, use_fast_layers

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def network():
    inner = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.LocalResponseNorm(3, alpha=0.5), nn.ReLU(),
                          nn.MaxPool2d(2))
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(),
                         nn.LocalResponseNorm(5, alpha=0.5), inner, nn.Flatten(), nn.LazyLinear(4))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
def test_values_gradients_and_names_stay(device, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    x = torch.randn(6, 3, 18, 18, device=device)
    plain = network().to(device)
    plain(x)
    fast = copy.deepcopy(plain)
    use_fast_layers(fast)
    assert [type(layer) for layer in fast[1:4]] == [FastMaxPool2d, nn.Identity, FastLocalResponseNorm]
    assert [type(layer) for layer in fast[4]] == [nn.Conv2d, nn.Identity, FastLocalResponseNorm, nn.ReLU, FastMaxPool2d]
    assert [layer.rectify for layer in (fast[1], fast[3], fast[4][2], fast[4][4])] == [True, False, True, False]
    assert list(fast.state_dict()) == list(plain.state_dict())
    for ours, theirs in zip([fast(x), *torch.autograd.grad(fast(x).square().sum(), list(fast.parameters()))],
                            [plain(x), *torch.autograd.grad(plain(x).square().sum(), list(plain.parameters()))],
                            strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4 if device == "cpu" else 1e-3,
                                   atol=1e-4 if device == "cpu" else 1e-3)


@pytest.mark.parametrize("layer",
                         [nn.MaxPool2d(3), nn.MaxPool2d(2, return_indices=True), nn.MaxPool2d(2, dilation=2),
                          nn.MaxPool2d(12, 2), nn.AvgPool2d(2), nn.MaxPool1d(2)], ids=repr)
def test_what_has_no_kernels_stays(layer):
    parent = nn.Sequential(layer, nn.ReLU())
    use_fast_layers(parent)
    assert list(parent) == [layer, parent[1]]
    assert type(parent[1]) is nn.ReLU
