"""Models as named tensors, and the little arithmetic that pieces share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Params = dict[str, Tensor]
Tree = Any  # nested dicts and tuples of tensors, so that a checkpoint can hold it and vmap can batch it


@dataclass(frozen=True)
class ModelState:
    """Weights and buffers of one model."""

    params: Params
    buffers: Params = field(default_factory=dict)


def add(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    """a + b, tensor by tensor."""
    return {name: a[name] + b[name] for name in a}


def subtract(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Params:
    """a - b, tensor by tensor."""
    return {name: a[name] - b[name] for name in a}


def zeros_like(params: Mapping[str, Tensor]) -> Params:
    """A model of zeros."""
    return {name: torch.zeros_like(v) for name, v in params.items()}


def norm(u: Mapping[str, Tensor]) -> Tensor:
    """The L2 norm over all tensors together."""
    return torch.cat([v.flatten() for v in u.values()]).square().sum().sqrt()


def num_bytes(tensors: Mapping[str, Tensor]) -> int:
    """What the tensors take uncompressed."""
    return sum(v.numel() * v.element_size() for v in tensors.values())
