"""ResNet-20 for CIFAR without BatchNorm: Fixup initialisation, as ozdayi2020 uses it."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.models.checks import require_image

_BLOCKS_PER_STAGE = 3
_WIDTHS = (16, 32, 64)


@piece("model")
def resnet20_fixup(input_shape: tuple[int, ...], num_classes: int, scalar_rate: float = 0.1,
                   slow_bias: bool = False) -> nn.Module:
    """20 layers: a 3x3 convolution, 3 stages of 3 residual blocks (16, 32, 64), the mean over all pixels, one FC.

    Fixup makes residual networks trainable without normalisation (L blocks, m convolutions in each branch):
      1. the classifier and the last convolution of each branch start at 0, so each block starts as ReLU(shortcut);
      2. the other convolutions of a branch start at He et al.'s scale times L^(-1 / (2m - 2)); here L = 9, m = 2: 1/3;
      3. a scalar bias before each convolution and activation, and one scalar multiplier a branch.

    Parameters on CIFAR-10: conv1 9*3*16 = 432; stage1 3 * 2*9*16*16 = 13,824; stage2 9*16*32 + 5 * 9*32*32 = 50,688;
    stage3 9*32*64 + 5 * 9*64*64 = 202,752; scalars 9 blocks * 5 + 2 = 47; fc1 64*10 + 10 = 650; sum 268,393.

    Args:
        input_shape: [channels, height, width], at least 4x4 pixels; [3, 32, 32] in the paper.
        num_classes: number of outputs (logits).
        scalar_rate: rate of the scalar biases and multipliers relative to the other weights'. Fixup's code trains them
            at a tenth (of the rate for a batch of 128). A scalar is its first value plus sqrt(scalar_rate) times a
            number that is learnt, so that a plain gradient step on that number moves the scalar by scalar_rate times
            its own gradient. Norms and weight decay see the number, which starts at 0.
        slow_bias: train the classifier's bias at `scalar_rate`, too. Fixup's code does: its slow group is every
            parameter with "bias" or "scale" in its name, `fc.bias` among them. Off, because ozdayi2020 has one rate for
            all, and its runs here were made so.

    Returns:
        `nn.Sequential` of conv1, bias1, relu1, stage1, stage2, stage3, pool, flatten, bias2, fc1, and bias3 with
        `slow_bias`. The parameters' names end in "weight", "bias" or "scale".

    Departure from Fixup's code: weight decay. There a scalar s takes s <- s - r/10 (gradient + decay s), so that all
    scalars shrink towards 0 at a tenth of the rate r. Here decay acts on the learnt number, at the whole rate: a scalar
    goes back towards where it began (0 for a bias, 1 for a multiplier) ten times as fast. A network cannot ask the
    optimiser for another decay. In the 9,800 steps of ozdayi2020 at rate 0.1 and decay 5e-4, decay alone leaves 0.61 of
    a scalar's way from its start; the authors' leaves 0.95 of its value.

    Example:
        >>> sum(p.numel() for p in resnet20_fixup((3, 32, 32), 10).parameters())
        268393

    References:
        Zhang, Dauphin and Ma 2019, Fixup Initialization: Residual Learning Without Normalization, section 3; layers
        and shortcuts from the authors' CIFAR code (hongyi-zhang/Fixup, cifar/models/fixup_resnet_cifar.py). Used by
        Ozdayi, Kantarcioglu and Iyer 2020, section 4, who mention one learning rate only.
    """
    if scalar_rate <= 0:
        raise AskewError(f"resnet20_fixup: scalar_rate must be above 0, not {scalar_rate}; 1 trains the scalars "
                         "like all other weights")
    channels, _, _ = require_image("resnet20_fixup", input_shape, num_classes, min_size=(4, 4))
    network = nn.Sequential(OrderedDict(
        # Outside the branches: torch's own initialisation, as in the authors' code.
        conv1=nn.Conv2d(channels, _WIDTHS[0], 3, padding=1, bias=False), bias1=ScalarBias(scalar_rate), relu1=nn.ReLU(),
        stage1=_stage(_WIDTHS[0], _WIDTHS[0], 1, scalar_rate),
        stage2=_stage(_WIDTHS[0], _WIDTHS[1], 2, scalar_rate),
        stage3=_stage(_WIDTHS[1], _WIDTHS[2], 2, scalar_rate),
        pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), bias2=ScalarBias(scalar_rate),
        fc1=nn.Linear(_WIDTHS[2], num_classes, bias=not slow_bias),
    ))
    if slow_bias:
        network.add_module("bias3", ClassBias(num_classes, scalar_rate))
    classifier = network.get_submodule("fc1")
    for parameter in classifier.parameters():
        nn.init.zeros_(parameter)
    return network


class ScalarBias(nn.Module):
    """Add one learnt number, 0 at first, to every value.

    Args:
        rate: its learning rate relative to the other weights'.
    """

    client_axis = True  # `_spread` takes one number per client, too

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.root = rate**0.5

    def forward(self, x: Tensor) -> Tensor:
        return x + _spread(self.bias * self.root, x)


class ScalarScale(nn.Module):
    """Multiply every value by one learnt number, 1 at first.

    Args:
        rate: its learning rate relative to the other weights'.
    """

    client_axis = True

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))
        self.root = rate**0.5

    def forward(self, x: Tensor) -> Tensor:
        return x * _spread(1 + self.scale * self.root, x)


class ClassBias(nn.Module):
    """Add one learnt number per class, 0 at first, to the scores.

    Args:
        classes: how many there are.
        rate: their learning rate relative to the other weights'.
    """

    client_axis = True

    def __init__(self, classes: int, rate: float = 1.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))
        self.root = rate**0.5

    def forward(self, x: Tensor) -> Tensor:
        numbers = self.bias * self.root
        if numbers.ndim == 2:  # one row per client, beside each of the client's examples
            numbers = numbers.to(x.dtype).repeat_interleave(x.shape[0] // numbers.shape[0], dim=0)
        return x + numbers


def _spread(number: Tensor, x: Tensor) -> Tensor:
    """A number [1] as it is; one per client, [K, 1], beside each of the client's examples, end to end."""
    if number.ndim == 1:
        return number
    each = number.to(x.dtype).expand(-1, x.shape[0] // number.shape[0]).flatten()
    return each.view(-1, *[1] * (x.ndim - 1))


class FixupBlock(nn.Module):
    """ReLU(scale * conv2(ReLU(conv1(x + bias1) + bias2) + bias3) + bias4 + shortcut(x)).

    Args:
        wide_in: channels of x.
        wide_out: channels of the result, `wide_in` or twice as many.
        stride: 1 or 2, of the first convolution and of the shortcut.
        num_blocks: residual blocks in the whole network, L of Fixup's scale.
        scalar_rate: rate of the scalars relative to the other weights'.
    """

    def __init__(self, wide_in: int, wide_out: int, stride: int, num_blocks: int, scalar_rate: float = 1.0) -> None:
        super().__init__()
        self.bias1, self.bias2, self.bias3, self.bias4 = (ScalarBias(scalar_rate) for _ in range(4))
        self.scale = ScalarScale(scalar_rate)
        self.conv1 = nn.Conv2d(wide_in, wide_out, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(wide_out, wide_out, 3, padding=1, bias=False)
        # A 1x1 "average" is every other pixel: what the authors' AvgPool2d(1, stride) does, He et al.'s option A.
        self.shortcut = nn.AvgPool2d(1, stride) if stride > 1 else None
        he_scale = (2 / (wide_out * 9)) ** 0.5  # by the fan-out of a 3x3 kernel
        convolutions = 2
        nn.init.normal_(self.conv1.weight, std=he_scale * num_blocks ** (-1 / (2 * convolutions - 2)))
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor) -> Tensor:
        moved = self.bias1(x)
        branch = torch.relu(self.bias2(self.conv1(moved)))
        branch = self.bias4(self.scale(self.conv2(self.bias3(branch))))
        if self.shortcut is None:
            return torch.relu(branch + x)
        half = self.shortcut(moved)  # with the bias, as in the authors' code
        return torch.relu(branch + torch.cat((half, torch.zeros_like(half)), dim=1))


def _stage(wide_in: int, wide_out: int, stride: int, scalar_rate: float) -> nn.Sequential:
    num_blocks = _BLOCKS_PER_STAGE * len(_WIDTHS)
    blocks: OrderedDict[str, nn.Module] = OrderedDict(
        block1=FixupBlock(wide_in, wide_out, stride, num_blocks, scalar_rate))
    for number in range(2, _BLOCKS_PER_STAGE + 1):
        blocks[f"block{number}"] = FixupBlock(wide_out, wide_out, 1, num_blocks, scalar_rate)
    return nn.Sequential(blocks)
