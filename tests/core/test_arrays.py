"""Archives of numpy's: read as numpy reads them, refused where they contradict themselves or would fill the memory."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from askew.core import arrays
from askew.core.arrays import check_unpacked, read_arrays
from askew.core.errors import AskewError

TYPES = ("?", "i1", "<i2", ">i4", "<i8", "u1", "<u8", "<f2", ">f4", "<f8", "<c8", "<U3", "S5")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_plain_type_and_shape_reads_as_numpy_reads_it(save, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    given = {f"{kind}-{shape}-{order}": np.asarray(draw.integers(0, 99, shape), order=order).astype(kind)
             for kind in TYPES for shape in ((), (0,), (3,), (2, 0, 4), (2, 3, 4)) for order in "CF"}
    save(tmp_path / "a.npz", **given)
    read = read_arrays(tmp_path / "a.npz", "test file")
    assert list(read) == list(given)
    for name, array in given.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)
        assert read[name].flags.writeable


def archive(path: Path, member: bytes, name: str = "x.npy") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, member)
    return path


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + content


@pytest.mark.parametrize("header", [
    "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999999, ), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",  # 0 in 64 bits
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, ), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999, 99999999999), }",
    f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1, ' * 70}), }}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1, ), }",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (1, ), }",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (999999999, ), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1, ), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, ), }",
    "{'descr': '<f8', 'fortran_order': 0, 'shape': (1, ), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 1, }",
    "{'descr': '<f8', 'fortran_order': False}", "(" * 5000, "-" * 9000, "[]", "", "{'descr': '<f8', 'fort",
    "__import__('os').system('true')"])
def test_a_header_that_cannot_be(header: str, tmp_path: Path) -> None:
    for version in (1, 2):
        path = archive(tmp_path / "a.npz", npy(header, bytes(8), version))
        with pytest.raises(AskewError, match="cannot be read as a test file") as caught:
            read_arrays(path, "test file")
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x03\0", b"\x93NUMPY\x01\0\xff\xff", b"junk" * 10])
def test_a_member_that_is_no_array(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(AskewError, match="cannot be read as a test file"):
        read_arrays(archive(tmp_path / "a.npz", content), "test file")


def test_what_is_no_array_is_not_looked_at(tmp_path: Path) -> None:
    assert read_arrays(archive(tmp_path / "a.npz", b"junk", "readme.txt"), "test file") == {}


def test_encryption_and_other_packings_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.savez(out, x=np.zeros(3))
    content = bytearray(out.getvalue())
    for at in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[at] |= 1  # the flag that says: encrypted
    (tmp_path / "locked.npz").write_bytes(content)
    with pytest.raises(AskewError, match="encrypted"):
        read_arrays(tmp_path / "locked.npz", "test file")
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "odd.npz", "w", method) as file:
            file.writestr("x.npy", npy("{}"))
        with pytest.raises(AskewError, match="packed in a way that numpy does not use"):
            read_arrays(tmp_path / "odd.npz", "test file")


def test_a_bomb_is_refused_before_it_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(1_000_000, np.uint8), y=np.zeros(10))
    assert len(read_arrays(tmp_path / "zeros.npz", "test file")["x"]) == 1_000_000  # small enough to be right
    monkeypatch.setattr(arrays, "SMALL", 10_000)
    with pytest.raises(AskewError, match=r"would unpack to 1,000,\d+ bytes, more than 1\d\d,\d+ .*savez, which"):
        read_arrays(tmp_path / "zeros.npz", "test file")
    np.savez(tmp_path / "plain.npz", x=np.zeros(1_000_000, np.uint8))
    assert len(read_arrays(tmp_path / "plain.npz", "test file")["x"]) == 1_000_000  # the remedy helps


def test_the_limit_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10_000_000))
    check_unpacked(tmp_path / "a", 10**9, "remedy")
    with pytest.raises(AskewError, match=r"1,000,000,001 bytes, more than 1,000,000,000 .* if that is right, remedy"):
        check_unpacked(tmp_path / "a", 10**9 + 1, "remedy")
    (tmp_path / "b").write_bytes(b"b")
    check_unpacked(tmp_path / "b", 2**28, "remedy")
    with pytest.raises(AskewError, match=r"more than 268,435,456"):
        check_unpacked(tmp_path / "b", 2**28 + 1, "remedy")
