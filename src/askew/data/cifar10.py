"""CIFAR-10: 60,000 colour images of 32 x 32 pixels in ten classes (Krizhevsky 2009), binary or Python archive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line
from askew.core.files import MEGABYTE, check_regular
from askew.core.registry import piece
from askew.data.batch_pickle import Refused, read_pickle
from askew.data.locate import find_folder, missing_file

BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
FOLDERS = (BINARY, PYTHON)
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MOST = 128 * MEGABYTE  # a batch has 31 MB
RECORD = 1 + 3 * 32 * 32  # bytes: the label, then red, green and blue, each row by row


@piece("data")
def cifar10(data_dir: str | None = None) -> Dataset:
    """CIFAR-10 with its official split, 50,000 training and 10,000 test images.

    Args:
        data_dir: folder that holds the data sets; see `askew.data.locate`. The binary archive is preferred.

    Returns:
        A data set of uint8 inputs [N, 3, 32, 32] and ten classes.

    References:
        A. Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.
    """
    folder = find_folder("cifar10", FOLDERS, data_dir)
    batches = [read_batch(find_batch(folder, batch, data_dir)) for batch in BATCHES]
    train, test = _examples(batches[:-1]), _examples(batches[-1:])
    return Dataset("cifar10", train, test, CLASSES)


def find_batch(folder: Path, batch: str, data_dir: str | Path | None = None) -> Path:
    """The file of one batch in either folder."""
    path = folder / (f"{batch}.bin" if folder.name == BINARY else batch)
    if not os.path.isfile(path):
        raise missing_file("cifar10", path.name, folder, data_dir)
    return path


def read_batch(path: Path) -> np.ndarray:
    """One batch of either archive as binary records, uint8 [N, 3073]: the label, then the image."""
    check_regular(path, "batch of CIFAR-10", MOST)
    try:
        records = _read_binary(path) if path.suffix == ".bin" else _read_pickle(path)
    except OSError as error:
        raise AskewError(f"{path} cannot be read: {error.strerror or error}") from None
    if records[:, 0].max(initial=0) > 9:
        raise AskewError(f"{path}: label {records[:, 0].max()} is not one of 0..9; delete the folder and get it again")
    return records


def _examples(batches: list[np.ndarray]) -> Examples:
    images = np.empty((sum(map(len, batches)), 3, 32, 32), np.uint8)
    np.concatenate([batch[:, 1:] for batch in batches], out=images.reshape(len(images), -1))  # no second copy
    labels = np.concatenate([batch[:, 0] for batch in batches]).astype(np.int64)
    return Examples(torch.from_numpy(images), torch.from_numpy(labels))


def _read_binary(path: Path) -> np.ndarray:
    content = np.fromfile(path, np.uint8)
    if len(content) % RECORD or not len(content):
        raise AskewError(f"{path}: {len(content)} bytes are not a whole number of {RECORD}-byte records; "
                         "delete the folder and get it again")
    return content.reshape(-1, RECORD)


def _read_pickle(path: Path) -> np.ndarray:
    try:
        batch = read_pickle(path.read_bytes())
    except Refused as error:
        raise AskewError(f"{path}: {error}; do not use this file, get it again") from None
    except (ValueError, IndexError, KeyError) as error:
        raise AskewError(f"{path} is truncated or no pickle ({first_line(error)}); "
                         "delete the folder and get it again") from None
    return _records(path, batch)


def _records(path: Path, batch: Any) -> np.ndarray:
    data, labels = (batch.get("data"), batch.get("labels")) if isinstance(batch, dict) else (None, None)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != RECORD - 1:
        raise AskewError(f"{path}: no array 'data' of uint8 [N, {RECORD - 1}]; is it a CIFAR-10 batch?")
    if not isinstance(labels, list) or len(labels) != len(data) or not all(
            isinstance(label, int) and 0 <= label <= 9 for label in labels):
        raise AskewError(f"{path}: no list 'labels' of {len(data)} numbers 0..9; is it a CIFAR-10 batch?")
    return np.concatenate([np.array(labels, np.uint8)[:, None], data], axis=1)
