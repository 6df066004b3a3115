"""Labels as people write them (numbers or words) to labels as networks need them (0, 1, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.errors import AskewError


def encode_labels(where: str, *splits: Sequence[Any] | np.ndarray,
                  remedy: str = "") -> tuple[list[Tensor], tuple[str, ...]]:
    """Number the distinct labels in order: numbers by value, words by the alphabet.

    Args:
        where: what to call the labels in an error.
        splits: labels of the training examples, of the test examples, ...; whole numbers or words throughout.
        remedy: what else to do about numbers that are not whole.

    Returns:
        One int64 tensor a split, and the names of the classes.

    Example:
        >>> encode_labels("colour", ["red", "blue"], ["red"])
        ([tensor([1, 0]), tensor([1])], ('blue', 'red'))
    """
    arrays = [_plain(where, _array(where, split), remedy) for split in splits]
    if len({array.dtype.kind for array in arrays}) > 1:
        raise AskewError(f"{where}: numbers in one split and words in the other; write them alike")
    classes, codes = np.unique(np.concatenate(arrays), return_inverse=True)
    ends = np.cumsum([len(array) for array in arrays])[:-1]
    return [torch.from_numpy(part.astype(np.int64)) for part in np.split(codes, ends)], tuple(map(str, classes))


def _array(where: str, values: Sequence[Any] | np.ndarray) -> np.ndarray:
    try:
        if isinstance(values, list | tuple) and values and all(type(value) is str for value in values):
            return np.array(values, object)  # one long word among many short ones: numpy's words are all as long
        array = np.asarray(values)
        return array.astype(str) if array.dtype.kind == "S" else array
    except ValueError:  # rows of different lengths; bytes that are no text
        raise AskewError(f"{where}: one label per example is needed, a whole number or a word") from None


def _plain(where: str, values: np.ndarray, remedy: str) -> np.ndarray:
    """A vector of int64, or of words as Python's objects."""
    if values.ndim == 2 and values.shape[1] == 1:  # a column is a vector
        values = values[:, 0]
    if values.ndim != 1:
        raise AskewError(f"{where}: one label per example is needed, not an array of shape {values.shape}")
    if values.dtype.kind == "O":
        values = _unwrap(where, values)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)  # 2^63 itself is beyond a half
        bad = np.flatnonzero(~np.isfinite(wide) | (wide != np.round(wide)) | (np.abs(wide) >= 2.0**63))
        if len(bad):
            raise AskewError(f"{where}: label {values[bad[0]]} of example {bad[0]} is no class; "
                             f"labels must be whole numbers or words{remedy}")
    if values.dtype.kind == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
        raise AskewError(f"{where}: label {values.max()} is beyond 64 bits; write such labels as words")
    if values.dtype.kind in "biuf":
        return values.astype(np.int64)
    if values.dtype.kind in "UO":
        return values.astype(object)
    raise AskewError(f"{where}: labels of type {values.dtype} cannot be read; labels must be whole numbers or words")


def _unwrap(where: str, values: np.ndarray) -> np.ndarray:
    """Python objects as an array of a plain type; an absent label is refused."""
    absent = [i for i, value in enumerate(values) if value is None]
    if absent:
        raise AskewError(f"{where}: example {absent[0]} has no label; give it one or leave it out")
    kinds = {type(value) for value in values}
    if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
        raise AskewError(f"{where}: labels of types {', '.join(sorted(kind.__name__ for kind in kinds))}; "
                         "labels must be whole numbers or words throughout")
    array = values if kinds == {str} else np.array(values.tolist())
    if array.dtype.kind == "O" and kinds != {str}:
        raise AskewError(f"{where}: labels beyond 64 bits; write such labels as words")
    return array
