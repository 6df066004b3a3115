"""A multi-layer perceptron: the network for inputs of any shape, and for the embedded 8x8 digits."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise

from torch import nn

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.models.checks import require_classes


@piece("model")
def mlp(input_shape: tuple[int, ...], num_classes: int, hidden: list[int] = [64]) -> nn.Module:  # noqa: B006 - never changed
    """Flatten, then Linear and ReLU for each hidden width, then Linear to the classes.

    With widths n_0 = prod(input_shape), n_1, ..., n_h = hidden and n_{h+1} = num_classes the network has
    sum_i (n_i + 1) n_{i+1} parameters: (64 + 1) 64 + (64 + 1) 10 = 4,810 on the digits. `hidden=[]` is softmax
    regression, whose loss is convex; `hidden=[200, 200]` on MNIST is the "2NN" of McMahan et al. (199,210 parameters).

    Args:
        input_shape: shape of one example, any number of axes.
        num_classes: number of outputs (logits).
        hidden: widths of the hidden layers, from the input on.

    Returns:
        `nn.Sequential` of flatten, fc1, relu1, fc2, ...; weights drawn from torch's global generator.

    Example:
        >>> sum(p.numel() for p in mlp((1, 8, 8), 10).parameters())
        4810

    References:
        McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, section 3 (2NN).
    """
    require_classes("mlp", num_classes)
    if not input_shape or min(input_shape) < 1:
        raise AskewError(f"mlp needs examples with at least one value, not shape {list(input_shape)}; check the data")
    if any(width < 1 for width in hidden):
        raise AskewError(f"mlp: hidden widths must be at least 1, not {list(hidden)}; write for example hidden=[64]")
    widths = [math.prod(input_shape), *hidden, num_classes]
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    for number, (wide_in, wide_out) in enumerate(pairwise(widths), start=1):
        layers[f"fc{number}"] = nn.Linear(wide_in, wide_out)
        if number <= len(hidden):
            layers[f"relu{number}"] = nn.ReLU()
    return nn.Sequential(layers)
