"""Arrays from numpy's archives (.npz), and how far a packed file may unpack: none fills the memory or runs code."""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path

import numpy as np

from askew.core.errors import AskewError, first_line
from askew.core.files import MEGABYTE, check_regular

# Real data pack to a half or a tenth, rarely to a hundredth; a bomb to a thousandth.
SMALL, TIMES = 256 * MEGABYTE, 100
KINDS = "biufcUS"  # numbers and words; arrays of Python objects are pickles


def read_arrays(path: str | Path, what: str) -> dict[str, np.ndarray]:
    """The arrays that `numpy.savez` or `savez_compressed` wrote, by name; other members are not looked at.

    Args:
        what: the file is, for the errors.
    """
    check_regular(path, what)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            check_unpacked(path, sum(info.file_size for info in members),
                           "save it with numpy.savez, which does not pack")
            return {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in members}
    except AskewError:
        raise
    except Exception as error:  # a damaged archive fails in many ways: zipfile's, zlib's, struct's, numpy's own
        raise AskewError(f"{str(path)!r} cannot be read as a {what} ({first_line(error)}); write it again") from None


def check_unpacked(path: str | Path, size: int, remedy: str) -> None:
    """Refuse a file that would unpack to far more than its own size, before it does.

    Args:
        size: in bytes, as the file itself declares it.
        remedy: what to do if the data are right.
    """
    most = max(SMALL, TIMES * Path(path).stat().st_size)
    if size > most:
        raise AskewError(f"{str(path)!r} would unpack to {size:,} bytes, more than {most:,} ({TIMES} times its size); "
                         f"if that is right, {remedy}")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One member; its header must promise exactly the bytes that there are."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is packed in a way that numpy does not use")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{info.filename} has version {version}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy's about headers that Python 2 wrote
            shape, fortran, dtype = read_header(file)
        if dtype.kind not in KINDS or dtype.itemsize == 0:
            raise ValueError(f"{info.filename} is of type {dtype}, not numbers or words")
        size, stored = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if min(shape, default=0) < 0 or size != stored:
            raise ValueError(f"{info.filename} holds {stored} bytes, its header promises {size}")
        content = bytearray(file.read(size))  # not read(): that unpacks as much as there is, whatever was declared
    if len(content) != size:
        raise ValueError(f"{info.filename} ends too early")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
