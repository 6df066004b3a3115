"""Your own arrays from one numpy file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from askew.core.arrays import read_arrays
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.targets import NUMBERS, Targets, numbered, read_targets
from askew.data.labels import encode_labels
from askew.data.split import stratified_split


@piece("data")
def npz(path: str, test_fraction: float = 0.2, targets: Targets = "classes") -> Dataset:
    """Arrays saved by `numpy.savez`: `x_train`, `y_train`, `x_test`, `y_test`, or `x` and `y` to be split here.

    Inputs are [N, features], images [N, height, width] or [N, channels, height, width]; uint8 is taken to mean 0..255.
    Optional: `clients` (or `clients_train` and `clients_test`), the natural owner of each example.

    Args:
        path: the file.
        test_fraction: share of the examples held out for the test, in equal proportions of each class; only where the
            file has no test examples of its own.
        targets: what `y` holds: "classes": one whole number or word per example; "numbers": [N] or [N, d]; "labels": 0
            or 1 for each of several, [N, L]; "tokens": whole numbers [N, T], -100 where there is none.

    Returns:
        A data set named after the file; classes are the distinct labels in order. Inputs
        beside tokens stay whole numbers.

    Example:
        np.savez("data.npz", x=np.zeros((10, 3)), y=np.arange(10) % 2)
        data = npz("data.npz")   # 8 examples to train on, 2 to test
    """
    arrays = read_arrays(os.path.expanduser(path), ".npz file")
    for key, array in arrays.items():
        if array.ndim == 0:
            raise AskewError(f"{path}: {key!r} is a single value; save arrays with one entry per example")
    name = Path(path).stem
    if "x" in arrays and "y" in arrays:
        x, (y,), classes = _inputs(path, "x", arrays, targets), *_targets(path, arrays, targets, "y")
        _same_length(path, arrays, "x", "y")
        train, test = stratified_split(y.numpy() if targets == "classes" else np.zeros(len(y)), test_fraction)
        clients = _clients(path, arrays, "clients", len(x))
        return Dataset(name, Examples(x[train], y[train]), Examples(x[test], y[test]), classes,
                       None if clients is None else clients[train], None if clients is None else clients[test], targets)
    missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in arrays]
    if missing:
        raise AskewError(f"{path}: no array {missing[0]!r} (it has {', '.join(arrays) or 'none'}); "
                         "save x_train, y_train, x_test, y_test, or x and y")
    (y_train, y_test), classes = _targets(path, arrays, targets, "y_train", "y_test")
    splits = []
    for split, y in (("train", y_train), ("test", y_test)):
        _same_length(path, arrays, f"x_{split}", f"y_{split}")
        splits.append(Examples(_inputs(path, f"x_{split}", arrays, targets), y))
    return Dataset(name, splits[0], splits[1], classes, _clients(path, arrays, "clients_train", len(y_train)),
                   _clients(path, arrays, "clients_test", len(y_test)), targets)


def _inputs(path: str, key: str, arrays: dict[str, np.ndarray], targets: Targets) -> Tensor:
    x = arrays[key]
    if targets == "tokens" and x.dtype.kind in "iu" and x.ndim > 1:
        return torch.from_numpy(x.astype(np.int64))
    return as_inputs(f"{path}: {key}", x)


def as_inputs(where: str, x: np.ndarray) -> Tensor:
    """Any array of numbers as inputs: uint8 stays, all else becomes float32; grey images get their channel axis."""
    if x.ndim < 2 or x.dtype.kind not in "biuf":
        raise AskewError(f"{where}: inputs must be numbers with the examples on the first axis and at least one more, "
                         f"not {x.dtype} of shape {x.shape}")
    if x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] > 4:
        warnings.warn(f"{where}: of shape {x.shape}, inputs are taken for {x.shape[1]} channels of {x.shape[2]} x "
                      f"{x.shape[3]} pixels; if the channels stand last, give np.moveaxis(x, 3, 1)", stacklevel=3)
    if x.dtype != np.uint8:
        # What float32 cannot hold becomes infinity, which a data set refuses.
        with np.errstate(over="ignore", invalid="ignore"):
            x = x.astype(np.float32)
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    return tensor[:, None] if tensor.ndim == 3 else tensor


def _targets(path: str, arrays: dict[str, np.ndarray], targets: Targets,
             *keys: str) -> tuple[list[Tensor], tuple[str, ...]]:
    if targets == "classes":
        return encode_labels(f"{path}: {keys[0]}", *(arrays[key] for key in keys), remedy=NUMBERS)
    y = [read_targets(f"{path}: {key}", arrays[key], targets) for key in keys]
    return y, numbered(path, targets, *y)


def _same_length(path: str, arrays: dict[str, np.ndarray], x: str, y: str) -> None:
    if len(arrays[x]) != len(arrays[y]):
        raise AskewError(f"{path}: {len(arrays[x])} inputs in {x!r} but {len(arrays[y])} labels in {y!r}")


def _clients(path: str, arrays: dict[str, np.ndarray], key: str, length: int) -> np.ndarray | None:
    clients = arrays.get(key)
    if clients is None:
        return None
    if clients.shape != (length,) or clients.dtype.kind not in "iu":
        raise AskewError(f"{path}: {key!r} must hold {length} whole numbers, not {clients.dtype} {clients.shape}")
    return clients.astype(np.int64)
