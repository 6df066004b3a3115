"""The MNIST network of fednnnn2020, table 3."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image


@piece("model")
def fednnnn_mnist_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Two unpadded 5x5 convolutions (20, 50), each with 2x2 max pooling, then FC 500 and the classes; no BatchNorm.

    28x28 shrinks to 24, 12, 8 and 4, as printed. Parameters: conv1 25*1*20 + 20 = 520, conv2 25*20*50 + 50 = 25,050,
    fc1 50*4*4*500 + 500 = 400,500, fc2 500*10 + 10 = 5,010; sum 431,080.

    Args:
        input_shape: [channels, height, width], at least 16x16 pixels; [1, 28, 28] in the paper.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv1, relu1, pool1, conv2, relu2, pool2, flatten, fc1, relu3, fc2.

    Example:
        >>> sum(p.numel() for p in fednnnn_mnist_cnn((1, 28, 28), 10).parameters())
        431080

    References:
        Nagura, Bian and Sato 2020, FedNNNN, appendix, table 3.
    """
    channels, height, width = require_image("fednnnn_mnist_cnn", input_shape, num_classes, min_size=(16, 16))
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(channels, 20, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(20, 50, 5), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(50 * rows * columns, 500), relu3=nn.ReLU(),
        fc2=nn.Linear(500, num_classes),
    ))
