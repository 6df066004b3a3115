import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from askew.data import cifar10, load
from askew.pieces.preprocess.normalise import mean_and_std

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def to_python_layout(root: Path, protocol: int = 2) -> None:
    """Rewrite the binary folder as the Python archive has it: pickles with rows of 3,072 bytes and a list of labels."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in BATCHES:
        records = np.fromfile(root / "cifar-10-batches-bin" / f"{name}.bin", np.uint8).reshape(-1, 3073)
        batch = {"data": records[:, 1:].copy(), "labels": records[:, 0].tolist(), "batch_label": name, "filenames": []}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
        (root / "cifar-10-batches-bin" / f"{name}.bin").unlink()
    (root / "cifar-10-batches-bin").rmdir()


def test_reads_the_binary_archive(cifar_folder):
    data = cifar10(data_dir=str(cifar_folder))
    assert data.train.x.shape == (60, 3, 32, 32)
    assert data.train.x.dtype == torch.uint8
    assert data.test.y.tolist() == [(i + 5) % 10 for i in range(12)]
    assert data.train.x[13, :, 0, 0].tolist() == [1, 1, 1]  # second batch, second image
    assert data.train.x[13, :, 31, 31].tolist() == [1, 51, 101]  # red, green, blue
    assert data.classes[3] == "cat"


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_python_archive_gives_the_same(cifar_folder, protocol):
    binary = cifar10(data_dir=str(cifar_folder))
    to_python_layout(cifar_folder, protocol)
    python = cifar10(data_dir=str(cifar_folder))
    for split in ("train", "test"):
        assert torch.equal(getattr(binary, split).x, getattr(python, split).x)
        assert torch.equal(getattr(binary, split).y, getattr(python, split).y)


def python2_pickle() -> bytes:
    """A batch exactly as Python 2 and numpy 1 wrote it: `str` for bytes, numpy.core for the function."""
    data = bytes(range(256)) * 12  # one image of 3,072 bytes
    array = (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86"
             b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
             b"T" + len(data).to_bytes(4, "little") + data + b"tb")
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels]K\x07au."


def test_a_pickle_of_python_2(cifar_folder):
    to_python_layout(cifar_folder)
    for name in BATCHES:
        (cifar_folder / "cifar-10-batches-py" / name).write_bytes(python2_pickle())
    data = cifar10(data_dir=str(cifar_folder))
    assert data.test.y.tolist() == [7]
    assert data.test.x.flatten()[:257].tolist() == [*range(256), 0]


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_malicious_pickle_runs_nothing(cifar_folder, refused, tmp_path, protocol):
    to_python_layout(cifar_folder)
    trap = tmp_path / "trap"
    evil = {"data": np.zeros((1, 3072), np.uint8), "labels": [0], "extra": Malicious(trap)}
    (cifar_folder / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(evil, protocol=protocol))
    with refused(r"data_batch_1: (refused: the pickle asks for (posix|nt).system|.*which a batch of images does)"):
        cifar10(data_dir=str(cifar_folder))
    assert not trap.exists()


@pytest.mark.parametrize("attack", [
    b"cbuiltins\neval\n(S'1+1'\ntR.", b"cnumpy\nload\n(S'x'\ntR.", b"c_codecs\ndecode\n(S'x'\ntR.",
    b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93."])
def test_only_what_arrays_need_is_allowed(cifar_folder, refused, attack):
    to_python_layout(cifar_folder)
    (cifar_folder / "cifar-10-batches-py" / "data_batch_1").write_bytes(attack)
    with refused("refused: the pickle asks for"):
        cifar10(data_dir=str(cifar_folder))


@pytest.mark.parametrize(("content", "message"), [
    (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}), "no list 'labels' of 2 numbers"),
    (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}), "no list 'labels' of 1 numbers"),
    (pickle.dumps({"data": np.zeros((1, 3072), np.float32), "labels": [0]}), "no array 'data' of uint8"),
    (pickle.dumps({"data": np.zeros((1, 99), np.uint8), "labels": [0]}), "no array 'data' of uint8"),
    (pickle.dumps([1, 2]), "no array 'data'"),
    (pickle.dumps({"data": np.zeros((9, 3072), np.uint8)}, protocol=2)[:1000], "truncated or no pickle"),
    (b"", "truncated or no pickle"),
    (b"not a pickle", "it has the opcode b'n' at byte 0, which a batch of images does not need"),
], ids=["too few labels", "label 10", "floats", "other width", "list", "cut", "empty", "text"])
def test_damaged_pickles_are_refused(cifar_folder, refused, content, message):
    to_python_layout(cifar_folder)
    (cifar_folder / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    with refused(message):
        cifar10(data_dir=str(cifar_folder))


def test_damaged_binary_files_are_refused(cifar_folder, refused):
    path = cifar_folder / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with refused("data_batch_3.bin: 36875 bytes are not a whole number of 3073-byte records"):
        cifar10(data_dir=str(cifar_folder))
    path.write_bytes(b"\x0b" + whole[1:])
    with refused("label 11 is not one of 0..9"):
        cifar10(data_dir=str(cifar_folder))
    path.write_bytes(b"")
    with refused("0 bytes are not a whole number"):
        cifar10(data_dir=str(cifar_folder))
    path.unlink()
    with refused("no file data_batch_3.bin in .*askew data get cifar10"):
        cifar10(data_dir=str(cifar_folder))


def test_real_cifar10(real_data):
    data = load("cifar10", real_data("cifar-10-batches-bin"))
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert data.train.y.bincount().tolist() == [5000] * 10
    mean, std = mean_and_std(data.train.x)
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert std.tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-5)
