"""A small convolutional network for the embedded 8x8 digits."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image


@piece("model")
def small_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Two 3x3 convolutions (16, 32), each with 2x2 max pooling, then FC 64 and the classes.

    The digits' [1, 8, 8] becomes [32, 2, 2] = 128 values. Parameters there:
    conv1 9*1*16 + 16 = 160, conv2 9*16*32 + 32 = 4,640, fc1 128*64 + 64 = 8,256, fc2 64*10 + 10 = 650; sum 13,706.

    Args:
        input_shape: [channels, height, width], at least 4x4 pixels.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv1, relu1, pool1, conv2, relu2, pool2, flatten, fc1, relu3, fc2.

    Example:
        >>> sum(p.numel() for p in small_cnn((1, 8, 8), 10).parameters())
        13706

    References:
        None: our own, no paper uses it. It is McMahan et al. 2017's MNIST network at a hundredth of its size.
    """
    channels, height, width = require_image("small_cnn", input_shape, num_classes, min_size=(4, 4))
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(channels, 16, 3, padding=1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(16, 32, 3, padding=1), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(32 * (height // 4) * (width // 4), 64), relu3=nn.ReLU(),
        fc2=nn.Linear(64, num_classes),
    ))
