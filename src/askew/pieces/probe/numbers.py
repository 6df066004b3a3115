"""From tensors on a device to numbers in a record."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def to_numbers(values: Mapping[str, Tensor]) -> dict[str, float | None]:
    """Scalars as Python numbers, all in one transfer from the device; None where undefined (0 / 0) or not finite.

    JSON has no NaN: None becomes `null`, which every reader takes.

    Example:
        >>> to_numbers({"a": torch.tensor(0.5), "b": torch.tensor(0.0) / 0.0})
        {'a': 0.5, 'b': None}
    """
    together: list[float] = torch.stack([v.to(torch.float64) for v in values.values()]).tolist()
    return {name: v if math.isfinite(v) else None for name, v in zip(values, together, strict=True)}
