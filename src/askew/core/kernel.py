"""Triton, where kernels of our own can run, and whether they do.

A file with a kernel holds the same operation in torch, and its gradient, and can be imported everywhere. Without a GPU
`jit` leaves a kernel the plain function that it is written as, which nobody calls, and Triton is not imported: that
takes half a second, and torch for CPUs does not bring it. Two variables of the environment say otherwise, for tests:

    TRITON_INTERPRET=1    Triton's own: kernels run on a CPU, slowly
    ASKEW_TRITON=1        kernels are made ready to be compiled for a GPU that is not there
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_WANTED = INTERPRETED or os.environ.get("ASKEW_TRITON") == "1" or torch.cuda.is_available()
_THERE = _WANTED and importlib.util.find_spec("triton") is not None

triton: Any = importlib.import_module("triton") if _THERE else None
tl: Any = importlib.import_module("triton.language") if _THERE else None
jit: Callable[[Callable[..., Any]], Any] = triton.jit if _THERE else lambda function: function


def has_kernels(x: Tensor) -> bool:
    """Whether a tensor lies where kernels run, which compute in 32 bits at most."""
    return _THERE and (x.is_cuda or INTERPRETED) and x.dtype != torch.float64
