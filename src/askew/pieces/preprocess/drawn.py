"""What random steps share: windows, mirrors and numbers drawn from one key per example.

A step folds a number of its own into each example's key, so that two steps of one chain draw independently.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from askew.core import rng
from askew.core.errors import AskewError

CROP, FLIP, BRIGHTNESS, CONTRAST = range(4)  # folded into keys: one stream for each kind of draw


def crop(x: Tensor, height: int, width: int, keys: Tensor) -> Tensor:
    """A window of each image at a place of its own, gathered in one go."""
    rows, columns = x.shape[-2] - height + 1, x.shape[-1] - width + 1
    draws = rng.bits(stream(keys, CROP), 2)
    top, left = draws[:, 0] % rows, draws[:, 1] % columns
    row = top[:, None] + torch.arange(height, device=x.device)
    column = left[:, None] + torch.arange(width, device=x.device)
    place = (row[:, :, None] * x.shape[-1] + column[:, None, :]).flatten(1)  # [N, height * width], into the flat image
    cut = x.flatten(2).gather(2, place[:, None, :].expand(-1, x.shape[1], -1))
    return cut.view(*x.shape[:2], height, width)


def flip(x: Tensor, keys: Tensor) -> Tensor:
    mirrored = rng.bits(stream(keys, FLIP), 1) % 2 == 1
    return torch.where(mirrored[:, :, None, None], x.flip(-1), x)


def stream(keys: Tensor, number: int) -> Tensor:
    # The number is made on the device: a copy from the host would make the host wait, and cannot be in a CUDA graph.
    return rng.fold(keys, torch.full((), number, dtype=torch.int64, device=keys.device))


def draw(keys: Tensor, number: int, low: float, high: float) -> Tensor:
    return (low + (high - low) * rng.uniform(stream(keys, number), 1))[:, :, None, None]


def images_only(name: str) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        if len(of) != 3:
            raise AskewError(f"{name}: inputs of shape {of} are not images [channels, height, width]")
        return of

    return shape
