"""What a round's record may hold: plain numbers under names of their own, so that it can be written and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from askew.core.errors import AskewError, shown

Record = dict[str, Any]
# What a round says of itself, whether or not it is in this round's record.
RESERVED = frozenset({"round", "clients", "train_loss", "bytes_down", "bytes_up", "loss", "dropped", "dropped_clients",
                      "cloned", "deleted"})


def plain_numbers(where: str, values: Any, taken: frozenset[str]) -> dict[str, Any]:
    """What a probe, a pool or an adversity has measured: numbers, lists and mappings of them.

    Args:
        where: whose values these are, for the error.
        taken: names that they may not have.

    Example:
        >>> plain_numbers("probe", {"q": np.float32(0.5), "parts": torch.ones(2)}, RESERVED)
        {'q': 0.5, 'parts': [1.0, 1.0]}
        >>> plain_numbers("probe", {"round": 3}, RESERVED)
        Traceback (most recent call last):
        askew.core.errors.AskewError: probe: 'round' is a name of the round's own; take another
    """
    if not isinstance(values, Mapping):
        raise AskewError(f"{where}: must give numbers by name, such as {{'norm': 0.5}}, not {shown(values)}")
    for name in values:
        if not isinstance(name, str):
            raise AskewError(f"{where}: a measurement's name is a text, not {shown(name)}")
        if name in taken:
            raise AskewError(f"{where}: {name!r} is a name of the round's own; take another")
    return {name: _plain(f"{where}: {name}", value) for name, value in values.items()}


def _plain(where: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping) and all(isinstance(key, str | int | np.integer) for key in value):
        return {str(key): _plain(where, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(where, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise AskewError(f"{where} must be a number, or a list of them, not {shown(value)}")
