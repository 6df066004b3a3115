"""The CIFAR-10 network of fednnnn2020, table 4."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image


@piece("model")
def fednnnn_cifar_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Three pairs of 3x3 convolutions (32, 64, 128) with BatchNorm, a 2x2 max pool after each, FC 382, FC 192, classes.

    Parameters on CIFAR-10: conv11 896, conv12 9,248, conv21 18,496, conv22 36,928, conv31 73,856, conv32 147,584
    (each 9 in out + out), BatchNorm 2 (32 + 32 + 64 + 64 + 128 + 128) = 896, fc1 128*4*4*382 + 382 = 782,718,
    fc2 382*192 + 192 = 73,536, fc3 192*10 + 10 = 1,930; sum 1,146,088.

    Args:
        input_shape: [channels, height, width], at least 8x8 pixels; [3, 32, 32] in the paper.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv11, bn11, relu11, conv12, bn12, relu12, pool1, conv21, ..., pool3, flatten, fc1, relu4,
        fc2, relu5, fc3.

    Example:
        >>> sum(p.numel() for p in fednnnn_cifar_cnn((3, 32, 32), 10).parameters())
        1146088

    References:
        Nagura, Bian and Sato 2020, FedNNNN, appendix, table 4.
    """
    channels, height, width = require_image("fednnnn_cifar_cnn", input_shape, num_classes, min_size=(8, 8))
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, wide in enumerate((32, 64, 128), start=1):
        for number in (f"{stage}1", f"{stage}2"):
            # Padding 1 follows from the printed sizes; the table does not say whether the convolutions have biases
            # (redundant before BatchNorm): torch's default, they do.
            layers[f"conv{number}"] = nn.Conv2d(channels, wide, 3, padding=1)
            layers[f"bn{number}"] = nn.BatchNorm2d(wide)
            layers[f"relu{number}"] = nn.ReLU()
            channels = wide
        layers[f"pool{stage}"] = nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    # 382 as printed; the TensorFlow tutorial's 384 may have been meant.
    layers["fc1"], layers["relu4"] = nn.Linear(128 * (height // 8) * (width // 8), 382), nn.ReLU()
    layers["fc2"], layers["relu5"] = nn.Linear(382, 192), nn.ReLU()
    layers["fc3"] = nn.Linear(192, num_classes)
    return nn.Sequential(layers)
