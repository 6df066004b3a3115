"""Steps between stored inputs and the network: normalisation, crops, flips, for a whole batch on its device.

A random step folds a number of its own into each example's key, so that two steps of one chain draw independently.
Without keys (evaluation) each does its deterministic counterpart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from askew.core import rng
from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.preprocess import Preprocess
from askew.core.registry import piece

_CROP, _FLIP, _BRIGHTNESS, _CONTRAST = range(4)  # folded into keys: one stream for each kind of draw


@piece("preprocess")
def normalise(data: Dataset | None = None, mean: float | list[float] | None = None,
              std: float | list[float] | None = None, axis: int = 1) -> Preprocess:
    """Subtract the mean and divide by the standard deviation, both per channel: (x - mean) / std.

    Args:
        data: where to measure what is not given: all training inputs, uint8 divided by 255 (supplied by the program).
        mean: one number, or one a channel.
        std: the same. A channel that never varies is divided by 1.
        axis: which axis of the inputs counts as the channels, examples being axis 0. For MFCCs [N, 1, 50, 10],
            axis=3 gives each coefficient its own mean.

    Example:
        >>> step = normalise(mean=0.5, std=0.5)
        >>> step.apply(torch.tensor([[0.0, 1.0]]), None)
        tensor([[-1.,  1.]])
    """
    if (mean is None or std is None) and data is None:
        raise AskewError("normalise: give mean and std, or data to measure them on")
    if mean is None or std is None:
        assert data is not None
        _check_axis(axis, data.input_shape)
        measured = mean_and_std(data.train.x, axis)
    centre = measured[0] if mean is None else torch.tensor(mean, dtype=torch.float64).reshape(-1)
    spread = measured[1] if std is None else torch.tensor(std, dtype=torch.float64).reshape(-1)
    if not bool((spread > 0).all()):
        raise AskewError(f"normalise: std must be above 0, not {std}")
    centre, spread = centre.to(torch.float32), spread.to(torch.float32)
    on_device: dict[torch.device, tuple[Tensor, Tensor]] = {}  # copied once, not at each step

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        if x.device not in on_device:
            on_device[x.device] = centre.to(x.device), spread.to(x.device)
        view = [1] * x.ndim
        view[axis] = -1
        mean_there, std_there = on_device[x.device]
        return (x - mean_there.view(view)) / std_there.view(view)

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        _check_axis(axis, of)
        for name, values in (("mean", centre), ("std", spread)):
            if len(values) not in (1, of[axis - 1]):
                raise AskewError(f"normalise: {len(values)} values of {name} for {of[axis - 1]} channels; "
                                 "give one, or one a channel")
        return of

    return Preprocess(apply, shape)


def mean_and_std(x: Tensor, axis: int = 1, chunk: int = 1_000) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation along all axes but one, float64; uint8 is divided by 255, no spread gives 1.

    Chunks are merged with the update of Chan, Golub and LeVeque 1979, which does not cancel for a mean far from 0.
    """
    others = [other for other in range(x.ndim) if other != axis]
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for start in range(0, len(x), chunk):
        values = x[start : start + chunk].to(torch.float64) / (255.0 if x.dtype == torch.uint8 else 1.0)
        more = values.numel() // values.shape[axis]
        # float64 sums of squared deviations from the chunk's own mean
        spread, centre = torch.var_mean(values, dim=others, correction=0)
        shift = centre - mean
        squares = squares + spread * more + shift.square() * count * more / (count + more)
        mean, count = mean + shift * more / (count + more), count + more
    std = (squares / count).sqrt()
    return mean, torch.where(std > 0, std, torch.ones_like(std))


@piece("preprocess")
def random_crop(padding: int = 4) -> Preprocess:
    """Pad each side with zeros, then cut an image of the first size at a random place. Evaluation: the image itself.

    Args:
        padding: pixels on each side; the image moves by at most that much each way, all (2 padding + 1)^2 places
            equally likely.
    """
    if padding < 0:
        raise AskewError(f"random_crop: padding must be at least 0, not {padding}")

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        if keys is None or padding == 0:
            return x
        padded = torch.nn.functional.pad(x, (padding, padding, padding, padding))
        return _crop(padded, x.shape[-2], x.shape[-1], keys)

    return Preprocess(apply, _images_only("random_crop"), random=True)


@piece("preprocess")
def random_flip() -> Preprocess:
    """Mirror left to right with probability 1/2. Evaluation: the image itself."""

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        return x if keys is None else _flip(x, keys)

    return Preprocess(apply, _images_only("random_flip"), random=True)


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
        x = _flip(_crop(x, size, size, keys), keys)
        x = x + _draw(keys, _BRIGHTNESS, -63.0 / 255.0, 63.0 / 255.0)
        means = x.mean(dim=(-2, -1), keepdim=True)
        return _standardise((x - means) * _draw(keys, _CONTRAST, 0.2, 1.8) + means)

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        _images_only("tf_cifar")(of)
        if min(of[1:]) < size:
            raise AskewError(f"tf_cifar: size={size} does not fit into images of {of[2]} x {of[1]} pixels")
        return (of[0], size, size)

    return Preprocess(apply, shape, random=True)


def _crop(x: Tensor, height: int, width: int, keys: Tensor) -> Tensor:
    """A window of each image at a place of its own, gathered in one go."""
    rows, columns = x.shape[-2] - height + 1, x.shape[-1] - width + 1
    draws = rng.bits(_stream(keys, _CROP), 2)
    top, left = draws[:, 0] % rows, draws[:, 1] % columns
    row = top[:, None] + torch.arange(height, device=x.device)
    column = left[:, None] + torch.arange(width, device=x.device)
    place = (row[:, :, None] * x.shape[-1] + column[:, None, :]).flatten(1)  # [N, height * width], into the flat image
    cut = x.flatten(2).gather(2, place[:, None, :].expand(-1, x.shape[1], -1))
    return cut.view(*x.shape[:2], height, width)


def _flip(x: Tensor, keys: Tensor) -> Tensor:
    mirrored = rng.bits(_stream(keys, _FLIP), 1) % 2 == 1
    return torch.where(mirrored[:, :, None, None], x.flip(-1), x)


def _stream(keys: Tensor, number: int) -> Tensor:
    # The number is made on the device: a copy from the host would make the host wait, and cannot be in a CUDA graph.
    return rng.fold(keys, torch.full((), number, dtype=torch.int64, device=keys.device))


def _draw(keys: Tensor, stream: int, low: float, high: float) -> Tensor:
    return (low + (high - low) * rng.uniform(_stream(keys, stream), 1))[:, :, None, None]


def _standardise(x: Tensor) -> Tensor:
    # TensorFlow works on 0..255, where a std below 1 / sqrt(pixels) counts as that; here images are 0..1.
    floor = 1.0 / math.sqrt(x[0].numel()) / 255.0
    std, mean = torch.std_mean(x, dim=(1, 2, 3), correction=0, keepdim=True)
    return (x - mean) / std.clamp_min(floor)


def _images_only(step: str) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        if len(of) != 3:
            raise AskewError(f"{step}: inputs of shape {of} are not images [channels, height, width]")
        return of

    return shape


def _check_axis(axis: int, of: tuple[int, ...]) -> None:
    if not 1 <= axis <= len(of):
        raise AskewError(f"normalise: axis must be 1 to {len(of)} for inputs of shape {of}, not {axis}")
