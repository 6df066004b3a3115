"""The CIFAR-10 network of FedAvg, hsu2019 and zhao2018: that of the TensorFlow tutorial of the time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from torch import nn

from askew.core.registry import piece
from askew.models.checks import require_image
from askew.models.local_response_norm import LocalResponseNorm


@piece("model")
def mcmahan_cifar_cnn(
    input_shape: tuple[int, ...], num_classes: int, init: Literal["tensorflow", "torch"] = "tensorflow"
) -> nn.Module:
    """Two 5x5 convolutions of 64 with pooling and local response normalisation, then FC 384, FC 192, the classes.

    Local response normalisation (Krizhevsky et al. 2012) divides each value by what its channel neighbours hold:
    b_c = a_c / (1 + (0.001 / 9) sum_{|j - c| <= 4} a_j^2)^0.75, the sum over the channels that exist.

    Parameters for the tutorial's 24x24 crops: conv1 25*3*64 + 64 = 4,864, conv2 25*64*64 + 64 = 102,464,
    fc1 64*6*6*384 + 384 = 885,120, fc2 384*192 + 192 = 73,920, fc3 192*10 + 10 = 1,930; sum 1,068,298 (the paper:
    "about 10^6"). For whole 32x32 images fc1 has 64*8*8*384 + 384 = 1,573,248 and the sum is 1,756,426.

    Args:
        input_shape: [channels, height, width], height and width multiples of 4; [3, 24, 24] or [3, 32, 32].
        num_classes: number of outputs (logits).
        init: "tensorflow": the tutorial's normal distributions, cut off at two standard deviations, and constant
            biases; "torch": the uniform ones of torch's layers. The default is the tutorial's, because all three
            papers take its network: weight divergence and the first rounds depend on the scale of the weights.

    Returns:
        `nn.Sequential` of conv1, relu1, pool1, lrn1, conv2, relu2, lrn2, pool2, flatten, fc1, relu3, fc2, relu4, fc3.

    Example:
        >>> sum(p.numel() for p in mcmahan_cifar_cnn((3, 24, 24), 10).parameters())
        1068298

    References:
        McMahan et al. 2017, section 3 (CIFAR experiments); TensorFlow, Advanced Convolutional Neural Networks
        (tensorflow/models, tutorials/image/cifar10/cifar10.py); used by Hsu et al. 2019, section 3, and Zhao et al.
        2018, section 2. Krizhevsky, Sutskever and Hinton 2012, section 3.3 (local response normalisation).
    """
    # Multiples of 4: see `_pool_same`. Both papers' sizes are.
    channels, height, width = require_image("mcmahan_cifar_cnn", input_shape, num_classes, min_size=(4, 4),
                                            multiple_of=4)
    network = nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(channels, 64, 5, padding=2), relu1=nn.ReLU(), pool1=_pool_same(), lrn1=_lrn(),
        conv2=nn.Conv2d(64, 64, 5, padding=2), relu2=nn.ReLU(), lrn2=_lrn(), pool2=_pool_same(),
        flatten=nn.Flatten(),
        fc1=nn.Linear(64 * (height // 4) * (width // 4), 384), relu3=nn.ReLU(),
        fc2=nn.Linear(384, 192), relu4=nn.ReLU(),
        fc3=nn.Linear(192, num_classes),
    ))
    if init == "tensorflow":
        _initialise_as_tutorial(network)
    return network


def _pool_same() -> nn.MaxPool2d:
    """TensorFlow's 3x3 max pooling with stride 2 and padding "SAME", for even sides.

    TensorFlow then pads one row below and one column right, so the windows start at 0, 2, 4, ...; torch's `padding=1`
    would start them at -1. `ceil_mode` lets the last window hang over the edge instead: the same numbers.
    """
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


def _lrn() -> LocalResponseNorm:
    """`tf.nn.lrn(4, bias=1, alpha=0.001 / 9, beta=0.75)`: radius 4 is a window of 9.

    torch divides alpha by the size of the window and TensorFlow does not, hence 0.001 here and 0.001 / 9 there.
    """
    return LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)


def _initialise_as_tutorial(network: nn.Sequential) -> None:
    # layer -> (standard deviation of the weights before the cut, value of all biases)
    scales = {"conv1": (0.05, 0.0), "conv2": (0.05, 0.1), "fc1": (0.04, 0.1), "fc2": (0.04, 0.1), "fc3": (1 / 192, 0.0)}
    for name, (deviation, bias) in scales.items():
        layer = network.get_submodule(name)
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        assert layer.bias is not None
        nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        nn.init.constant_(layer.bias, bias)
