"""MNIST: 70,000 handwritten digits of 28 x 28 pixels (LeCun, Bottou, Bengio and Haffner 1998), in the idx format."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.core.files import MEGABYTE, check_regular
from askew.core.registry import piece
from askew.data.locate import find_folder, missing_file

FOLDERS = ("mnist", "MNIST/raw")  # ours, and where torchvision puts the same files
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
MOST = 256 * MEGABYTE  # of one file, unpacked; MNIST's largest has 47 MB


@piece("data")
def mnist(data_dir: str | None = None) -> Dataset:
    """MNIST with its official split, 60,000 training and 10,000 test images, from idx files (gzip or not).

    Args:
        data_dir: folder that holds the data sets; see `askew.data.locate`.

    Returns:
        A data set of uint8 inputs [N, 1, 28, 28] and ten classes.

    References:
        Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    folder = find_folder("mnist", FOLDERS, data_dir)
    arrays = [read_idx(find_idx(folder, file, data_dir)) for file in FILES]
    for file, array, ndim in zip(FILES, arrays, (3, 1, 3, 1), strict=True):
        if array.ndim != ndim:
            raise AskewError(f"{folder / file}: {array.ndim} dimensions instead of {ndim}; is it another file renamed?")
    tensors = [torch.from_numpy(array) for array in arrays]
    train, test = (Examples(x[:, None], y.to(torch.int64)) for x, y in (tensors[:2], tensors[2:]))
    return Dataset("mnist", train, test, tuple("0123456789"))


def find_idx(folder: Path, file: str, data_dir: str | Path | None = None) -> Path:
    """The file or its gzip'd form, whichever is there."""
    for path in (folder / file, folder / f"{file}.gz"):
        if os.path.isfile(path):
            return path
    raise missing_file("mnist", f"{file}[.gz]", folder, data_dir)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    check_regular(path, "file of MNIST", MOST)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AskewError(f"{path} is truncated or not gzip ({error}); delete it and get it again") from None
    except OSError as error:
        raise AskewError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) > MOST:
        raise AskewError(f"{path} unpacks to more than {MOST:,} bytes; MNIST's files are smaller: "
                         "delete it and get it again")
    return content


def read_idx(path: Path) -> np.ndarray:
    """An idx file of unsigned bytes: two zeros, 8 (the type), the number of dimensions, each size, then the data."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise AskewError(f"{path}: not an idx file of bytes (it begins with {content[:4].hex(' ') or 'nothing'}, "
                         "00 00 08 expected); delete it and get it again")
    if not 1 <= content[3] <= 3:
        raise AskewError(f"{path}: {content[3]} dimensions; labels have 1 and images 3: delete it and get it again")
    offset = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:offset], dtype=">u4").tolist()  # Python's integers: a product of them is never cut
    if 0 in shape:  # beside it numpy takes no size that is too large, though there is nothing
        raise AskewError(f"{path}: its header says that it is empty; delete it and get it again")
    if len(content) != offset + math.prod(shape):
        raise AskewError(f"{path}: {len(content) - offset} bytes of data, its header says {math.prod(shape)}; "
                         "delete it and get it again")
    return np.frombuffer(content, np.uint8, offset=offset).reshape(shape).copy()
