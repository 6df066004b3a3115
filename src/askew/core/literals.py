"""What the text of a call can hold: numbers, words, truth, nothing, and lists and mappings of them.

A recipe is written down before its first round, and read again when the run goes on or its models are used: what a
text cannot hold has to be refused before anything is trained with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import NoneType
from typing import Any

import numpy as np
import torch

from askew.core.errors import AskewError, shown

_LEAVES = (NoneType, bool, int, float, str, bytes)


def plain(value: Any) -> Any:
    """A value as a text would give it back: numpy's and torch's numbers as Python's, arrays, tuples, sets and ranges as
    lists, paths and devices as words; what no text can hold as it is.

    Example:
        >>> plain({"rates": (np.float64(0.5), np.int64(2)), "at": PurePath("a") / "b"})
        {'rates': [0.5, 2], 'at': 'a/b'}
    """
    if type(value) in _LEAVES:  # nearly all are
        return value
    if isinstance(value, np.generic | np.ndarray | torch.Tensor):
        value = value.tolist()
    if isinstance(value, PurePath | torch.device):
        return str(value)
    if isinstance(value, set | frozenset):
        value = sorted(value, key=shown)  # words come in another order in each process
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)  # an Enum of words has another `str`
    base = next((base for base in (int, float) if isinstance(value, base) and type(value) not in _LEAVES), None)
    return value if base is None else base(value)


def checked_literal(where: str, value: Any) -> Any:
    """The plain value, or the error that says that no text can hold it.

    Example:
        >>> checked_literal("damp: by", len)
        Traceback (most recent call last):
        askew.core.errors.AskewError: damp: by must be what a recipe can write down: numbers, words, lists or mappings \
of them, not <built-in function len>
    """
    value = value if _fits(value) else plain(value)
    if not _fits(value):
        raise AskewError(f"{where} must be what a recipe can write down: numbers, words, lists or mappings of them, "
                         f"not {shown(value)}")
    return value


def literal(value: Any) -> str:
    """The text of a plain value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {literal(item)}' for key, item in value.items())}}}"
    return repr(value)


def _key(key: Any) -> Any:
    made = plain(key)
    return key if isinstance(made, list | dict) else made  # which are no keys


def _fits(value: Any) -> bool:
    """Whether a value can be written down and read again."""
    if type(value) is int:
        return value.bit_length() <= 64
    if type(value) in (list, tuple):
        return all(map(_fits, value))
    if type(value) is dict:
        return all(type(key) in _LEAVES and _fits(key) for key in value) and all(map(_fits, value.values()))
    return type(value) in _LEAVES and bool(value == value)  # NaN has no word
