"""Which examples each client of a chunk sees at each local step: the same numbers as one by one, as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from askew.core import rng
from askew.simulate.local import SHUFFLE

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


def make_schedule(streams: Tensor, owned: Tensor, offsets: Tensor, sizes: list[int], epochs: int, batch_size: int) -> Schedule:
    """Lay out E epochs of mini-batches for K clients.

    Args:
        streams: [K] the clients' random streams in this round.
        owned: all clients' training examples end to end.
        offsets: [K] where each client's begin.
        sizes: how many each has, on the host.
    """
    device, clients, most = streams.device, len(sizes), max(sizes)
    batch = batch_size or most
    per_epoch = [-(-n // batch) if batch_size else 1 for n in sizes]
    size = on_device(sizes, device)[:, None]
    position = torch.arange(most, device=device)
    shuffle = rng.fold(streams, SHUFFLE)
    orders = []
    for epoch in range(epochs):
        draws = rng.bits(rng.fold(shuffle, epoch), most)
        # Beyond a client's own examples: last. The first n draws of a stream do not depend on how many are drawn.
        draws = torch.where(position < size, draws, _LAST)
        orders.append(torch.argsort(draws, dim=1, stable=True))
    order = torch.stack(orders, dim=1)  # [K, E, most]
    steps = [epochs * s for s in per_epoch]
    step = torch.arange(max(steps), device=device)
    a_epoch = on_device(per_epoch, device)[:, None]
    epoch_of, chunk_of = step // a_epoch, step % a_epoch  # [K, T]
    at = chunk_of[:, :, None] * batch + torch.arange(batch, device=device)  # [K, T, B] position within the epoch
    real = (at < size[:, :, None]) & (epoch_of < epochs)[:, :, None]
    flat = (epoch_of.clamp(max=epochs - 1)[:, :, None] * most + at.clamp(max=most - 1)).flatten(1)
    within = torch.gather(order.flatten(1), 1, flat).view(clients, len(step), batch)
    examples = owned[offsets[:, None, None] + torch.where(real, within, 0)]
    return Schedule(examples, real.sum(dim=2), steps)


def on_device(values: Sequence[float] | Tensor, device: torch.device) -> Tensor:
    """Numbers from the host, on their way before the device has finished what it is doing: a plain copy would wait for it."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
