"""Devices: whether there is one of a name, and how much memory it can spare."""

from __future__ import annotations

import os

import torch

from askew.core.errors import AskewError

MEMORY_SHARE = 0.5  # of a device's memory that a network, clients' memories, or a round's updates, may take


def available(name: str | torch.device) -> torch.device:
    """A device by name; refused where this machine does not have it."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):  # an unknown word; no such device, or a torch built without it
        raise AskewError(f"device {str(name)!r} is not available here; use cpu, or cuda where there is a GPU") from None
    return torch.device(name)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's own generators; whoever drives a run has put their state aside.

    On a CPU its generator alone: `torch.manual_seed` takes down the whole call stack for that of each kind of device
    that is not in use yet, which is a quarter of a small round.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def device_memory(device: torch.device) -> int:
    """Bytes that a device has in all."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30
