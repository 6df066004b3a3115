"""Which examples each client of a chunk sees at each local step: the same numbers as one by one, as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from askew.core import rng
from askew.engine.local import SHUFFLE

_LAST = torch.iinfo(torch.int64).max  # sorts behind every draw


@dataclass(frozen=True)
class Schedule:
    """Local steps of K clients, padded to the most steps T and the largest batch B.

    Args:
        examples: [K, T, B] which training example stands where; padding repeats some example.
        counts: [K, T] how many of the B are real; 0 where a client has finished.
        steps: steps of each client, on the host.
    """

    examples: Tensor
    counts: Tensor
    steps: list[int]


def make_schedule(streams: Tensor, owned: Tensor, offsets: Tensor, sizes: list[int], epochs: int,
                  batch_size: int) -> Schedule:
    """Lay out E epochs of mini-batches for K clients.

    Args:
        streams: [K] the clients' random streams in this round.
        owned: all clients' training examples end to end.
        offsets: [K] where each client's begin.
        sizes: how many each has, on the host.
    """
    device, most = streams.device, max(sizes)
    frame = _frame(tuple(sizes), epochs, batch_size, device)
    shuffle = rng.fold(streams, SHUFFLE)
    draws = rng.bits(rng.fold(shuffle[:, None], torch.arange(epochs, device=device)), most)  # [K, E, most]
    # Beyond a client's own examples: last. The first n draws of a stream do not depend on how many are drawn.
    order = torch.argsort(torch.where(frame.owned, draws, _LAST), dim=2, stable=True)
    within = torch.gather(order.flatten(1), 1, frame.flat).view(frame.real.shape)
    return Schedule(owned[offsets[:, None, None] + torch.where(frame.real, within, 0)], frame.counts, list(frame.steps))


@dataclass(frozen=True)
class _Frame:
    """What a schedule takes from the clients' sizes alone: the same from round to round where these are."""

    owned: Tensor  # [K, 1, most] whether a client has so many examples
    real: Tensor  # [K, T, B]
    flat: Tensor  # [K, T * B] place in the epochs' orders, which lie end to end
    counts: Tensor
    steps: tuple[int, ...]


@lru_cache(maxsize=2)  # whole chunks, and a last smaller one: more would only hold memory
def _frame(sizes: tuple[int, ...], epochs: int, batch_size: int, device: torch.device) -> _Frame:
    most = max(sizes)
    batch = batch_size or most
    per_epoch = [-(-n // batch) if batch_size else 1 for n in sizes]
    size = on_device(sizes, device)[:, None, None]
    steps = tuple(epochs * s for s in per_epoch)
    step = torch.arange(max(steps), device=device)
    steps_per_epoch = on_device(per_epoch, device)[:, None]
    epoch_of, chunk_of = step // steps_per_epoch, step % steps_per_epoch  # [K, T]
    at = chunk_of[:, :, None] * batch + torch.arange(batch, device=device)  # [K, T, B] position within the epoch
    real = (at < size) & (epoch_of < epochs)[:, :, None]
    flat = (epoch_of.clamp(max=epochs - 1)[:, :, None] * most + at.clamp(max=most - 1)).flatten(1)
    return _Frame(torch.arange(most, device=device) < size, real, flat, real.sum(dim=2), steps)


def on_device(values: Sequence[float] | Tensor, device: torch.device) -> Tensor:
    """Numbers from the host, on their way before the device has finished what it is doing: a plain copy would wait."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class ToHost:
    """Numbers on their way from the device. `read` waits until they have come, not for what the device does next."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        self._sizes = [v.numel() for v in values]
        flat = torch.cat([v.detach().double().flatten() for v in values])
        self._event: torch.cuda.Event | None = None
        if flat.is_cuda:
            self._host = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True).copy_(flat, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._host = flat

    def read(self) -> list[Tensor]:
        """Each tensor that was sent, flat and in double precision."""
        if self._event is not None:
            self._event.synchronize()
        return list(self._host.split(self._sizes))
