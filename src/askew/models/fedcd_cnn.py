"""The 10-layer network of fedcd2020."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image

# (channels out, stride) of the nine convolutions.
_CONVOLUTIONS = ((32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (128, 2), (128, 1), (256, 1), (256, 1))


@piece("model")
def fedcd_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Nine 3x3 convolutions without bias, each with BatchNorm and ReLU, the mean over all pixels, one FC.

    Parameters on CIFAR-10, convolutions 9 in out: 864 + 9,216 + 18,432 + 36,864 + 36,864 + 73,728 + 147,456 + 294,912
    + 589,824 = 1,208,160; BatchNorm 2 (32 + 32 + 64 + 64 + 64 + 128 + 128 + 256 + 256) = 2,048; fc1 256*10 + 10 =
    2,570; sum 1,212,778.

    Args:
        input_shape: [channels, height, width], at least 4x4 pixels; [3, 32, 32] in the paper.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv1, bn1, relu1, ..., conv9, bn9, relu9, pool, flatten, fc1.

    Example:
        >>> sum(p.numel() for p in fedcd_cnn((3, 32, 32), 10).parameters())
        1212778

    References:
        Kopparapu, Lin and Zhao 2020, FedCD, section 3.1, says "a 10-layer convolutional neural network" and no more;
        the layers are those of its authors' notebook (jessijzhao/FedCD).
    """
    channels, _, _ = require_image("fedcd_cnn", input_shape, num_classes, min_size=(4, 4))
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (wide, stride) in enumerate(_CONVOLUTIONS, start=1):
        layers[f"conv{number}"] = nn.Conv2d(channels, wide, 3, stride, padding=1, bias=False)
        layers[f"bn{number}"] = nn.BatchNorm2d(wide)
        layers[f"relu{number}"] = nn.ReLU()
        channels = wide
    layers["pool"], layers["flatten"] = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    layers["fc1"] = nn.Linear(channels, num_classes)
    return nn.Sequential(layers)
