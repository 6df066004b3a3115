"""CIFAR-10's pickles: batches in the published form are read exactly, all else is refused and costs little."""

from __future__ import annotations

import hashlib
import pickle
import pickletools
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzzing.formats import python2_batch

from askew.core.errors import AskewError
from askew.data.batch_pickle import MOST_STEPS, Refused, read_pickle
from askew.data.cifar10 import read_batch
from askew.data.verify import _CIFAR10


def batch(count: int) -> tuple[np.ndarray, list[int]]:
    draw = np.random.default_rng(count)
    return draw.integers(0, 256, (count, 3072), dtype=np.uint8), draw.integers(0, 10, count).tolist()


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("count", [1, 2, 300, 1200])
def test_batches_of_python_2_are_read_exactly(count: int, fortran: bool, tmp_path: Path) -> None:
    images, labels = batch(count)
    content = python2_batch(images, labels, fortran)
    theirs = pickle.loads(content, encoding="latin1")  # our own writer, read by Python's reader
    assert np.array_equal(theirs["data"], images)
    ours = read_pickle(content)
    assert list(ours) == list(theirs) == ["batch_label", "labels", "data", "filenames"]
    assert (ours["labels"], ours["filenames"]) == (labels, theirs["filenames"])
    assert ours["batch_label"] == "training batch 1 of 5"
    (tmp_path / "data_batch_1").write_bytes(content)
    records = read_batch(tmp_path / "data_batch_1")
    assert np.array_equal(records[:, 1:], images)
    assert records[:, 0].tolist() == labels


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 300])
def test_what_python_3_writes_again(count: int, protocol: int) -> None:
    images, labels = batch(count)
    read = read_pickle(pickle.dumps({"data": images, "labels": labels, "batch_label": "é", "filenames": ["a"] * count},
                                    protocol=protocol))
    assert np.array_equal(read["data"], images)
    assert (read["labels"], read["batch_label"]) == (labels, "é")


def test_real_batch(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """10,000 images in the published form: the bytes whose SHA-256 is known, in well under a second."""
    mosaic = pytest.importorskip("PIL.Image").open(real_data("cifar10") / "cifar10" / "test_batch.webp").convert("RGB")
    images = np.asarray(mosaic).reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(10_000, 3072)
    labels = np.fromfile(real_data("cifar10") / "cifar10" / "test_batch.labels", np.uint8).tolist()
    (tmp_path / "test_batch").write_bytes(python2_batch(images, labels))
    began = time.process_time()
    records = read_batch(tmp_path / "test_batch")
    assert time.process_time() - began < 2
    assert hashlib.sha256(records.tobytes()).hexdigest() == _CIFAR10["test_batch"]


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
U1 = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
STATE = b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def in_batch(data: bytes) -> bytes:
    return b"\x80\x02}(U\x04data" + data + b"U\x06labels](K\x00eu."


ATTACKS = {
    "forged state of a type": in_batch(U1 + b"(K\x03U\x01|NNNJ\xff\xff\xff\x7fK\x00J\xff\xff\xff\x7ftb"),
    "forged state with fields": in_batch(U1 + b"(K\x03U\x01|(U\x01atU\x01a}K\x01K\x01K\x00tb"),
    "array of objects": in_batch(b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR" + STATE),
    "type by another word": in_batch(b"cnumpy\ndtype\n(U\x0aV999999999K\x00K\x01tR"),
    "array that is never filled": in_batch(ARRAY),
    "type in place of the array": in_batch(U1),
    "array filled with an array": in_batch(ARRAY + b"2b"),
    "array larger than its bytes": in_batch(ARRAY + b"(K\x01J\xff\xff\xff\x7fM\x00\x0c\x86" + U1 + STATE
                                            + b"\x89T\x04\0\0\0abcdtb"),
    "array of negative size": in_batch(ARRAY + b"(K\x01J\xff\xff\xff\xffJ\xfc\xff\xff\xff\x86" + U1 + STATE
                                       + b"\x89T\x04\0\0\0abcdtb"),
    "array of words": in_batch(ARRAY + b"(K\x01K\x01K\x04\x86" + U1 + STATE + b"\x89U\x04abcdtb"),
    "subclass of arrays": in_batch(b"cnumpy\nmemmap\n(U\x01xtR"),
    "call of a list": in_batch(b"](tR"),
    "places far up in the memo": in_batch(b"Nr\xff\xff\xff\x7fr\xfe\xff\xff\x7f"),
    "keys in keys": b"\x80\x02" + b"(" * 2000 + b"}" + b"K\x01t" * 2000 + b"K\x01s.",
    "a dictionary as a key": b"\x80\x02}}K\x01s.",
    "a list that holds itself": in_batch(b"]q\x01h\x01a"),
    "doubled again and again": in_batch(b"]q\x01" + b"(h\x01h\x01lq\x01" * 50),
    "tuples doubled again and again": in_batch(b"(q\x01" + b"h\x01h\x01\x86q\x01" * 5000),
    "very many lists": in_batch(b"]" * (MOST_STEPS + 10)),
    "very many marks": in_batch(b"(" * (MOST_STEPS + 10)),
    "encoded again and again": in_batch(b"X\x00\x00\x10\x00" + b"a" * 2**20 + b"q\x01X\x06\0\0\0latin1q\x02"
                                        + b"c_codecs\nencode\nh\x01h\x02\x86R" * 5000),
    "another encoding": in_batch(b"c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0utf-8\x86R"),
    "a length beyond the file": in_batch(b"T\xff\xff\xff\x7f"),
    "a length beyond memory": in_batch(b"\x8e" + b"\xff" * 8),
    "words that are no text": in_batch(b"X\x01\0\0\0\xff"),
    "a name without an end": in_batch(b"cnumpy" * 1000),
    "no stack": b"R.", "nothing": b".", "a call": b"cos\nsystem\n(U\x02lstR.", "by number": b"\x82\x01.",
    "a persistent thing": b"U\x01aQ.", "a buffer": b"\x97.", "an instance": b"(ios\nsystem\n.",
    "a new object": b"cnumpy\ndtype\n)\x81.",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_one_line_and_costs_little(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(ATTACKS[name])
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(AskewError) as caught:
        read_batch(path)
    assert time.process_time() - began < 8  # traced, which takes ten times as long
    assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    tracemalloc.stop()
    assert str(caught.value).isprintable()


NEEDED = {"PROTO", "FRAME", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
          "APPEND", "APPENDS", "SETITEM", "SETITEMS", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE", "SHORT_BINUNICODE",
          "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BININT", "BININT1", "BININT2", "LONG1", "BINPUT", "LONG_BINPUT",
          "MEMOIZE", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "GLOBAL", "STACK_GLOBAL", "REDUCE",
          "BUILD", "STOP"}


def test_only_the_opcodes_of_a_batch_are_known() -> None:
    """Of all 256 bytes; each in front of what any opcode could want."""
    names = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
    known = set()
    for byte in range(256):
        try:
            read_pickle(bytes([byte]) + b"\0" * 16 + b"numpy\ndtype\n")
            known.add(byte)
        except Refused as error:
            if not str(error).startswith(f"it has the opcode {bytes([byte])!r} at byte 0,"):
                known.add(byte)
        except (ValueError, IndexError, KeyError):
            known.add(byte)
    assert {names[byte] for byte in known} == NEEDED
