import gzip
import sys

import pytest
import torch

from askew.data import load, mnist
from askew.data.mnist import read_idx


def test_reads_idx_files_gzipped_or_not(mnist_folder):
    data = mnist(data_dir=str(mnist_folder))
    assert data.train.x.shape == (20, 1, 2, 3)
    assert data.train.x.dtype == torch.uint8
    assert data.train.x[1, 0].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert data.train.y.tolist() == [*range(10), *range(10)]
    assert data.test.x.shape == (10, 1, 2, 3)


def test_finds_the_layout_of_torchvision(mnist_folder):
    (mnist_folder / "MNIST").mkdir()
    (mnist_folder / "mnist").rename(mnist_folder / "MNIST" / "raw")
    assert len(mnist(data_dir=str(mnist_folder)).train) == 20


def test_a_missing_file_is_named(mnist_folder, refused):
    (mnist_folder / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with refused(r"no file t10k-labels-idx1-ubyte\[.gz\] in .*askew data get mnist"):
        mnist(data_dir=str(mnist_folder))


def test_damaged_files_are_refused(mnist_folder, refused):
    packed = mnist_folder / "mnist" / "train-images-idx3-ubyte.gz"
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-12])
    with refused("train-images-idx3-ubyte.gz is truncated or not gzip"):
        mnist(data_dir=str(mnist_folder))
    packed.write_bytes(b"<html>no such file</html>")
    with refused("truncated or not gzip"):
        mnist(data_dir=str(mnist_folder))
    content = gzip.decompress(whole)
    packed.write_bytes(gzip.compress(b"\0\0\x0d" + content[3:]))
    with refused("not an idx file of bytes .it begins with 00 00 0d 03"):
        mnist(data_dir=str(mnist_folder))
    packed.write_bytes(gzip.compress(content[:-6]))
    with refused("114 bytes of data, its header says 120"):
        mnist(data_dir=str(mnist_folder))
    packed.write_bytes(gzip.compress(b""))
    with refused("begins with nothing"):
        mnist(data_dir=str(mnist_folder))


def test_swapped_files_are_refused(mnist_folder, refused):
    folder = mnist_folder / "mnist"
    (folder / "train-images-idx3-ubyte").write_bytes((folder / "train-labels-idx1-ubyte").read_bytes())
    with refused("1 dimensions instead of 3"):
        mnist(data_dir=str(mnist_folder))


def test_real_mnist(real_data):
    data = load("mnist", real_data("mnist"))
    assert (len(data.train), len(data.test)) == (60_000, 10_000)
    assert data.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.train.y.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert abs(float(data.train.x.float().mean()) / 255 - 0.1307) < 5e-5


@pytest.mark.parametrize(("head", "message"), [
    (bytes([0, 0, 8, 0]) + b"x", "0 dimensions; labels have 1 and images 3"),
    (bytes([0, 0, 8, 65]) + b"\0\0\0\1" * 65 + b"x", "65 dimensions"),
    (bytes([0, 0, 8, 255]) + b"\0\0\0\1" * 255 + b"x", "255 dimensions"),
    (bytes([0, 0, 8, 255]), "not an idx file"),
    (bytes([0, 0, 8, 3]) + b"\xff" * 12, "0 bytes of data, its header says 79228162458924105385300197375"),
    (bytes([0, 0, 8, 2]) + b"\x80\0\0\0" * 2 + b"", f"its header says {2**62}"),
    (bytes([0, 0, 8, 3]) + b"\0\1\0\0" * 2 + b"\0\0\0\0" + b"x", "its header says that it is empty"),
    (bytes([0, 0, 8, 3]) + b"\0\0\0\0" + b"\xff" * 8, "its header says that it is empty"),
])
def test_sizes_that_cannot_be_are_refused(tmp_path, refused, head, message):
    for name, content in (("images", head), ("images.gz", gzip.compress(head))):
        (tmp_path / name).write_bytes(content)
        with refused(message):
            read_idx(tmp_path / name)


def test_a_bomb_is_refused_at_the_limit(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(sys.modules["askew.data.mnist"], "MOST", 10_000)
    zeros = bytes([0, 0, 8, 1]) + (1_000_000).to_bytes(4, "big") + bytes(1_000_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(zeros))
    with refused("unpacks to more than 10,000 bytes"):
        read_idx(tmp_path / "bomb.gz")
    (tmp_path / "large").write_bytes(zeros)
    with refused(r"1,000,008 bytes, too many for a file of MNIST \(at most 10,000\)"):
        read_idx(tmp_path / "large")
