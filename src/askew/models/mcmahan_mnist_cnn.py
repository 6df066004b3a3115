"""The MNIST network of the paper that introduced FedAvg."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image


@piece("model")
def mcmahan_mnist_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Two 5x5 convolutions (32, 64), each with 2x2 max pooling, then FC 512 and the classes.

    Parameters on MNIST: conv1 25*1*32 + 32 = 832, conv2 25*32*64 + 64 = 51,264, fc1 64*7*7*512 + 512 = 1,606,144,
    fc2 512*10 + 10 = 5,130; sum 1,663,370, the number in the paper.

    Args:
        input_shape: [channels, height, width], at least 4x4 pixels; [1, 28, 28] in the papers.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv1, relu1, pool1, conv2, relu2, pool2, flatten, fc1, relu3, fc2.

    Example:
        >>> sum(p.numel() for p in mcmahan_mnist_cnn((1, 28, 28), 10).parameters())
        1663370

    References:
        McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, section 3.
        Used by Zhao et al. 2018, Federated Learning with Non-IID Data, section 2.
    """
    channels, height, width = require_image("mcmahan_mnist_cnn", input_shape, num_classes, min_size=(4, 4))
    return nn.Sequential(OrderedDict(
        # The paper does not print the padding; only "same" (2 for a 5x5 kernel) gives its 1,663,370 parameters.
        conv1=nn.Conv2d(channels, 32, 5, padding=2), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 5, padding=2), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(64 * (height // 4) * (width // 4), 512), relu3=nn.ReLU(),
        fc2=nn.Linear(512, num_classes),
    ))
