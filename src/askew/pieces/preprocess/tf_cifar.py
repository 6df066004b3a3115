"""The augmentation of TensorFlow's CIFAR-10 tutorial."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.preprocess import Preprocess
from askew.core.registry import piece
from askew.pieces.preprocess.drawn import BRIGHTNESS, CONTRAST, crop, draw, flip, images_only


@piece("preprocess")
def tf_cifar(size: int = 24) -> Preprocess:
    """The input pipeline of TensorFlow's CIFAR-10 tutorial, for the network of McMahan et al. 2017 and its successors.

    In this order: random crop to size x size, random flip, brightness (add U(-63, 63) / 255), contrast (multiply the
    deviation from each channel's own mean by U(0.2, 1.8)), standardisation of each image,
    (x - mean) / max(std, 1 / sqrt(pixels)). Evaluation: centre crop and standardisation. Nothing is clipped, as there.

    Args:
        size: side of the crop in pixels.

    References:
        TensorFlow models, tutorials/image/cifar10/cifar10_input.py (`distorted_inputs`, `inputs`).
    """
    if size < 1:
        raise AskewError(f"tf_cifar: size must be at least 1 pixel, not {size}")

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        if keys is None:
            top, left = (x.shape[-2] - size) // 2, (x.shape[-1] - size) // 2
            return _standardise(x[..., top : top + size, left : left + size])
        x = flip(crop(x, size, size, keys), keys)
        x = x + draw(keys, BRIGHTNESS, -63.0 / 255.0, 63.0 / 255.0)
        means = x.mean(dim=(-2, -1), keepdim=True)
        return _standardise((x - means) * draw(keys, CONTRAST, 0.2, 1.8) + means)

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        images_only("tf_cifar")(of)
        if min(of[1:]) < size:
            raise AskewError(f"tf_cifar: size={size} does not fit into images of {of[2]} x {of[1]} pixels")
        return (of[0], size, size)

    return Preprocess(apply, shape, random=True)


def _standardise(x: Tensor) -> Tensor:
    # TensorFlow works on 0..255, where a std below 1 / sqrt(pixels) counts as that; here images are 0..1.
    floor = 1.0 / math.sqrt(x[0].numel()) / 255.0
    std, mean = torch.std_mean(x, dim=(1, 2, 3), correction=0, keepdim=True)
    return (x - mean) / std.clamp_min(floor)
