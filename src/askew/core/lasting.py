"""What a checkpoint can hold, and how it is read: plain values, tensors and models, and no code.

torch's reader for `weights_only=True` builds what it knows and calls nothing else; of askew's own types it is told of
one, which holds tensors by name. What it would refuse is refused before it is written: else a run's checkpoints could
not be read when they are needed.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from pathlib import Path
from pickle import UnpicklingError
from types import NoneType
from typing import IO, Any

import torch

from askew.core.errors import AskewError
from askew.core.tensors import ModelState

_LEAVES = (NoneType, bool, int, float, complex, str, bytes, bytearray, torch.Tensor, torch.nn.Parameter, torch.Size,
           torch.dtype, torch.device)
_UNKNOWN = re.compile(r"GLOBAL (\S+) (?:was not an allowed|whose module)")  # in what torch's reader says


class UnreadableError(AskewError):
    """A file with values in it of types that are never read."""


def unreadable_type(value: Any) -> str | None:
    """The first type in nested dicts, lists and tuples that a checkpoint cannot hold; None where there is none.

    Example:
        >>> unreadable_type({"seen": [1, torch.zeros(2)], "model": ModelState({})}), unreadable_type(({1: range(3)},))
        (None, 'range')
    """
    left, seen = [value], set[int]()
    while left:
        item = left.pop()
        kind = type(item)
        if kind in _LEAVES or id(item) in seen:
            continue
        seen.add(id(item))  # a list may hold itself
        if kind in (dict, OrderedDict, Counter):
            left += [*item.keys(), *item.values()]
        elif kind in (list, tuple, set):
            left += item
        elif kind is ModelState:
            left += [item.params, item.buffers]
        else:
            return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return None


def read(file: Path | IO[bytes], place: Any) -> Any:
    """What `torch.save` has written, on a device.

    Args:
        place: a device, or as `map_location` of `torch.load`.

    Raises:
        UnreadableError: where it holds another type; what a damaged one raises has many types.
    """
    try:
        with torch.serialization.safe_globals([ModelState]):
            return torch.load(file, weights_only=True, map_location=place)
    except UnpicklingError as error:
        if (match := _UNKNOWN.search(str(error))) is None:
            raise
        raise UnreadableError(f"it holds a {match[1]}, which is read from no file") from None
