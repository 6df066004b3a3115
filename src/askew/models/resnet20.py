"""ResNet-20 for CIFAR with BatchNorm: what `resnet20_fixup` is compared with."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from askew.core.registry import piece
from askew.models.checks import require_image

_BLOCKS_PER_STAGE = 3
_WIDTHS = (16, 32, 64)


@piece("model")
def resnet20(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """20 layers: a 3x3 convolution, 3 stages of 3 residual blocks (16, 32, 64), the mean over all pixels, one FC.

    Parameters on CIFAR-10: convolutions as in `resnet20_fixup`, 432 + 13,824 + 50,688 + 202,752 = 267,696; BatchNorm
    2 (16 + 6 * 16 + 6 * 32 + 6 * 64) = 1,376; fc1 64*10 + 10 = 650; sum 269,722.

    Args:
        input_shape: [channels, height, width], at least 4x4 pixels; [3, 32, 32] in the paper.
        num_classes: number of outputs (logits).

    Returns:
        `nn.Sequential` of conv1, bn1, relu1, stage1, stage2, stage3, pool, flatten, fc1.

    Example:
        >>> sum(p.numel() for p in resnet20((3, 32, 32), 10).parameters())
        269722

    References:
        He et al. 2016, Deep Residual Learning for Image Recognition, section 4.2 with shortcuts of option A;
        convolutions start at He et al. 2015's scale.
    """
    channels, _, _ = require_image("resnet20", input_shape, num_classes, min_size=(4, 4))
    network = nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(channels, _WIDTHS[0], 3, padding=1, bias=False), bn1=nn.BatchNorm2d(_WIDTHS[0]),
        relu1=nn.ReLU(), stage1=_stage(_WIDTHS[0], _WIDTHS[0], 1), stage2=_stage(_WIDTHS[0], _WIDTHS[1], 2),
        stage3=_stage(_WIDTHS[1], _WIDTHS[2], 2),
        pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc1=nn.Linear(_WIDTHS[2], num_classes),
    ))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return network


class ResidualBlock(nn.Module):
    """ReLU(bn2(conv2(ReLU(bn1(conv1(x))))) + shortcut(x)).

    Args:
        wide_in: channels of x.
        wide_out: channels of the result, `wide_in` or twice as many.
        stride: 1 or 2, of the first convolution and of the shortcut.
    """

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide_out)
        self.conv2 = nn.Conv2d(wide_out, wide_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide_out)
        self.shortcut = nn.AvgPool2d(1, stride) if stride > 1 else None  # every other pixel

    def forward(self, x: Tensor) -> Tensor:
        branch = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.shortcut is None:
            return torch.relu(branch + x)
        half = self.shortcut(x)
        return torch.relu(branch + torch.cat((half, torch.zeros_like(half)), dim=1))


def _stage(wide_in: int, wide_out: int, stride: int) -> nn.Sequential:
    blocks: OrderedDict[str, nn.Module] = OrderedDict(block1=ResidualBlock(wide_in, wide_out, stride))
    for number in range(2, _BLOCKS_PER_STAGE + 1):
        blocks[f"block{number}"] = ResidualBlock(wide_out, wide_out, 1)
    return nn.Sequential(blocks)
