"""The keyword-spotting network: sizes between its layers and its options."""

from __future__ import annotations

import torch
from torch import nn

from askew.models import hello_edge_cnn


def test_sizes_between_the_layers() -> None:
    network, x = hello_edge_cnn((1, 50, 10), 10), torch.randn(2, 1, 50, 10)
    assert isinstance(network, nn.Sequential)
    shapes = {}
    for name, layer in network.named_children():
        x = layer(x)
        shapes[name] = tuple(x.shape[1:])
    assert shapes["conv1"] == (28, 41, 7)
    assert shapes["conv2"] == (30, 16, 4)
    assert shapes["flatten"] == (1920,)
    assert shapes["linear"] == (16,)
    assert shapes["fc1"] == (128,)
    assert list(shapes) == [
        "conv1", "bn1", "relu1", "conv2", "bn2", "relu2", "flatten", "linear", "fc1", "bn3", "relu3", "fc2"]


def test_49_frames_of_the_original_give_the_same_network() -> None:
    # 40 ms windows every 20 ms (Hello Edge) are 49 frames of a second, zhao2018 counts 50: stride 2 hides the odd one.
    original, ours = (hello_edge_cnn((1, frames, 10), 12) for frames in (49, 50))
    assert [p.shape for p in original.parameters()] == [p.shape for p in ours.parameters()]


def test_dropout_follows_each_activation_and_is_absent_by_default() -> None:
    names = [name for name, _ in hello_edge_cnn((1, 50, 10), 10, batch_norm=False, dropout=0.5).named_children()]
    assert names == [
        "conv1", "relu1", "dropout1", "conv2", "relu2", "dropout2", "flatten", "linear",
        "fc1", "relu3", "dropout3", "fc2"]
    assert not any(isinstance(layer, nn.Dropout) for layer in hello_edge_cnn((1, 50, 10), 10).modules())
