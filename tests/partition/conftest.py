"""Label sets for the partition tests; the real ones are read where they are and never downloaded."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from askew.core.dataset import Source


def find(name: str) -> Path | None:
    """A file of the real data sets: in $ASKEW_DATA, else in shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folders = [Path(os.environ["ASKEW_DATA"])] if os.environ.get("ASKEW_DATA") else []
    return next((folder / name for folder in [*folders, beside] if (folder / name).is_file()), None)


@pytest.fixture(scope="session")
def mnist() -> Source:
    """The 60,000 training labels: classes of 5,421 to 6,742."""
    file = find("mnist/train-labels-idx1-ubyte.gz")
    if file is None:
        pytest.skip("the labels of MNIST are not on this machine")
    return Source(np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8, offset=8).astype(np.int64), 10)


@pytest.fixture(scope="session")
def cifar10() -> Source:
    """The 50,000 training labels (5,000 a class) and the 10,000 test labels."""
    files = [find(f"cifar10/{batch}.labels") for batch in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")]
    parts = [np.fromfile(file, np.uint8).astype(np.int64) for file in files if file is not None]
    if len(parts) < 6:
        pytest.skip("the labels of CIFAR-10 are not on this machine")
    return Source(np.concatenate(parts[:5]), 10, parts[5])
