"""Inputs with mean 0 and standard deviation 1 per channel."""

from __future__ import annotations

import torch
from torch import Tensor

from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.preprocess import Preprocess
from askew.core.registry import piece


@piece("preprocess")
def normalise(data: Dataset | None = None, mean: float | list[float] | None = None,
              std: float | list[float] | None = None, axis: int = 1) -> Preprocess:
    """Subtract the mean and divide by the standard deviation, both per channel: (x - mean) / std.

    Args:
        data: where to measure what is not given: all training inputs, uint8 divided by 255 (supplied by the program).
        mean: one number, or one per channel.
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
                                 "give one, or one per channel")
        return of

    return Preprocess(apply, shape, measured={"mean": centre.tolist(), "std": spread.tolist()})


def mean_and_std(x: Tensor, axis: int = 1, chunk: int = 1_000) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation along all axes but one, float64; uint8 is divided by 255, no spread gives 1.

    Chunks are merged with the update of Chan, Golub and LeVeque 1979, which does not cancel for a mean far from 0.
    """
    others = [other for other in range(x.ndim) if other != axis]
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for first in range(0, len(x), chunk):
        values = x[first : first + chunk].to(torch.float64) / (255.0 if x.dtype == torch.uint8 else 1.0)
        more = values.numel() // values.shape[axis]
        # float64 sums of squared deviations from the chunk's own mean
        spread, centre = torch.var_mean(values, dim=others, correction=0)
        shift = centre - mean
        squares = squares + spread * more + shift.square() * count * more / (count + more)
        mean, count = mean + shift * more / (count + more), count + more
    std = (squares / count).sqrt()
    return mean, torch.where(std > 0, std, torch.ones_like(std))


def _check_axis(axis: int, of: tuple[int, ...]) -> None:
    if not 1 <= axis <= len(of):
        raise AskewError(f"normalise: axis must be 1 to {len(of)} for inputs of shape {of}, not {axis}")
