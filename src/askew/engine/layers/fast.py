"""Layers without weights that have kernels of our own on a GPU: local response normalisation and max pooling.

They compute what torch's layers do, and stand in for them in networks with a client axis and where a model is
evaluated. On other devices they are what they stand for.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from askew.engine.kernels import lrn
from askew.engine.kernels.pool import MOST_POOLED, max_pool2d
from askew.engine.rewrite import neighbours, pool_before_relu, rewritten
from askew.models.local_response_norm import LocalResponseNorm, local_response_norm


class FastLocalResponseNorm(nn.Module):
    """`nn.LocalResponseNorm`, and with the ReLU in front of it."""

    def __init__(self, layer: nn.LocalResponseNorm) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = layer.size, layer.alpha, layer.beta, layer.k
        self.rectify = False
        # Without kernels the very numbers of the layer that it stands in for, by which its place is known to be right.
        self.otherwise = local_response_norm if isinstance(layer, LocalResponseNorm) else F.local_response_norm

    def forward(self, x: Tensor) -> Tensor:
        return lrn.local_response_norm(x, self.size, self.alpha, self.beta, self.k, self.rectify, self.otherwise)


class FastMaxPool2d(nn.Module):
    """`nn.MaxPool2d` with a stride of 2, and with the ReLU behind it."""

    def __init__(self, layer: nn.MaxPool2d) -> None:
        super().__init__()
        self.window, self.padding = _pair(layer.kernel_size), _pair(layer.padding)
        self.ceil = layer.ceil_mode
        self.rectify = False

    def forward(self, x: Tensor) -> Tensor:
        return max_pool2d(x, self.window, self.padding, self.ceil, self.rectify)


def use_fast_layers(network: nn.Module) -> None:
    """Put them in the place of torch's, below `network`; names of weights stay what they were."""
    for parent in list(network.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.LocalResponseNorm) and type(child) in (nn.LocalResponseNorm, LocalResponseNorm):
                setattr(parent, name, FastLocalResponseNorm(child))
            elif type(child) is nn.MaxPool2d and _fits(child):
                setattr(parent, name, FastMaxPool2d(child))
    for parent, (name, layer), (after, following) in neighbours(network):
        if isinstance(layer, FastMaxPool2d) and type(following) is nn.ReLU:
            layer.rectify = True
            setattr(parent, after, nn.Identity())
        elif type(layer) is nn.ReLU and isinstance(following, FastLocalResponseNorm):
            following.rectify = True
            setattr(parent, name, nn.Identity())


def _fits(layer: nn.MaxPool2d) -> bool:
    return (not layer.return_indices and _pair(layer.dilation) == (1, 1) and _pair(layer.stride) == (2, 2)
            and math.prod(_pair(layer.kernel_size)) <= MOST_POOLED)


def _pair(value: Any) -> tuple[int, int]:
    height, width = (value, value) if isinstance(value, int) else value
    return height, width


def for_evaluation(module: nn.Module, x: Tensor) -> nn.Module:
    """A copy of a network on a GPU, with layers that are faster where it is not trained.

    Args:
        x: a few inputs.
    """
    # Tried on a CPU, where the layers are torch's: what is looked at is whether they stand in the right places.
    network, on_cpu, x = copy.deepcopy(module), copy.deepcopy(module).cpu(), x.cpu()
    for rewrite in (pool_before_relu, use_fast_layers):
        made = rewritten(on_cpu, rewrite, x)
        if made is not on_cpu:
            rewrite(network)
            on_cpu = made
    return network
