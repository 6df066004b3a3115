"""Numbers with few bits: rounding to an even grid, and what that takes on the wire."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from askew.core.tensors import Params


def to_nearest(tensors: Mapping[str, Tensor], bits: int) -> Params:
    """Each tensor on 2^bits - 1 evenly spaced values between -max|v| and max|v|."""
    levels = 2 ** (bits - 1) - 1

    def rounded(v: Tensor) -> Tensor:
        spacing = v.abs().amax() / levels
        return torch.where(spacing > 0, torch.round(v / spacing.clamp_min(1e-38)) * spacing, v)

    return {name: rounded(v) for name, v in tensors.items()}


def bytes_of(model: Mapping[str, Tensor], bits: int) -> int:
    """What such a model takes: its bits, and per tensor its spacing as a float."""
    return sum((v.numel() * bits + 7) // 8 + 4 for v in model.values())
