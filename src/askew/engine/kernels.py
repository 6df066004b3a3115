"""Whether the Triton kernels of the fast path can be used."""

from __future__ import annotations

import os

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton then runs kernels on a CPU, slowly: for tests


def has_kernels(x: Tensor) -> bool:
    """Whether a tensor lies where kernels run, which compute in 32 bits at most."""
    return (x.is_cuda or INTERPRETED) and x.dtype != torch.float64
