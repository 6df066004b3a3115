"""Layers without weights that have kernels of our own on a GPU: local response normalisation and max pooling.

They compute what torch's layers do, and stand in for them in networks with a client axis and where a model is evaluated. On
other devices they are torch's.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.engine.kernels import has_kernels
from askew.engine.rewrite import neighbours

MOST_POOLED = 127  # pixels in a window: the kernels keep in one byte which was the largest


class FastLocalResponseNorm(nn.Module):
    """`nn.LocalResponseNorm`, and with the ReLU in front of it."""

    def __init__(self, layer: nn.LocalResponseNorm) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = layer.size, layer.alpha, layer.beta, layer.k
        self.rectify = False

    def forward(self, x: Tensor) -> Tensor:
        if has_kernels(x) and x.ndim == 4:
            from askew.engine.lrn_kernels import MOST_CHANNELS, local_response_norm

            if x.shape[1] <= MOST_CHANNELS:
                return local_response_norm(x.contiguous(memory_format=torch.channels_last), self.size, self.alpha, self.beta, self.k,
                                           self.rectify)
        return F.local_response_norm(F.relu(x) if self.rectify else x, self.size, self.alpha, self.beta, self.k)


class FastMaxPool2d(nn.Module):
    """`nn.MaxPool2d` with a stride of 2, and with the ReLU behind it."""

    def __init__(self, layer: nn.MaxPool2d) -> None:
        super().__init__()
        self.window, self.stride, self.padding = (_pair(v) for v in (layer.kernel_size, layer.stride, layer.padding))
        self.ceil = layer.ceil_mode
        self.rectify = False

    def forward(self, x: Tensor) -> Tensor:
        if has_kernels(x) and x.ndim == 4:
            from askew.engine.pool_kernels import max_pool2d

            return max_pool2d(x.contiguous(memory_format=torch.channels_last), self.window, self.padding, self.ceil, self.rectify)
        y = F.max_pool2d(x, self.window, self.stride, self.padding, ceil_mode=self.ceil)
        return F.relu(y) if self.rectify else y


def use_fast_layers(network: nn.Module) -> None:
    """Put them in the place of torch's, below `network`; names of weights stay what they were."""
    for parent in list(network.modules()):
        for name, child in list(parent._modules.items()):
            if type(child) is nn.LocalResponseNorm:
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
