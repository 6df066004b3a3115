"""Small data sets in the official layouts, made of real files, and a check that an error is one line."""

from __future__ import annotations

import gzip
import os
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist_folder(tmp_path: Path) -> Path:
    """A root with a miniature MNIST: 20 training and 10 test images of 2 x 3 pixels, half of the files gzip'd."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for split, count in (("train", 20), ("t10k", 10)):
        images = np.arange(count * 6).reshape(count, 2, 3)
        (folder / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(np.arange(count) % 10))
    return tmp_path


def cifar_records(batch: int, count: int = 12) -> np.ndarray:
    """Binary records whose pixels tell batch, channel and example apart."""
    images = np.zeros((count, 3, 32, 32), np.uint8)
    images += np.arange(count, dtype=np.uint8)[:, None, None, None] + np.array([0, 50, 100], np.uint8)[:, None, None]
    images[:, :, 0, 0] = batch
    labels = ((np.arange(count) + batch) % 10).astype(np.uint8)
    return np.concatenate([labels[:, None], images.reshape(count, -1)], axis=1)


@pytest.fixture
def cifar_folder(tmp_path: Path) -> Path:
    """A root with a miniature binary CIFAR-10: six batches of 12 images."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for batch, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        cifar_records(batch).tofile(folder / f"{name}.bin")
    return tmp_path


def write_wav(path: Path, samples: np.ndarray, rate: int = 16_000, channels: int = 1) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture(name="write_wav")
def write_wav_fixture() -> Callable[..., None]:
    return write_wav


@pytest.fixture
def speech_folder(tmp_path: Path) -> Path:
    """A root with a miniature Speech Commands 0.01: per word, clips of three speakers, one in each split."""
    folder = tmp_path / "speech_commands_v0.01"
    lists: dict[str, list[str]] = {"testing_list.txt": ["bed/zz_nohash_0.wav"], "validation_list.txt": []}
    for number, word in enumerate(WORDS):
        (folder / word).mkdir(parents=True)
        for speaker, length in (("aa", 16_000), ("bb", 12_000), ("cc", 16_000)):
            tone = 8_000 * np.sin(2 * np.pi * (200 + 150 * number) * np.arange(length) / 16_000)
            write_wav(folder / word / f"{speaker}_nohash_0.wav", tone)
        lists["testing_list.txt"].append(f"{word}/bb_nohash_0.wav")
        lists["validation_list.txt"].append(f"{word}/cc_nohash_0.wav")
    for name, clips in lists.items():
        (folder / name).write_text("\n".join(clips) + "\n")
    return tmp_path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or changes the user's data and cache folders."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("ASKEW_DATA", raising=False)


REAL = [Path(place) for place in (os.environ.get("ASKEW_DATA"), Path(__file__).parents[3] / "shared" / "data") if place]


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """The root that holds a folder of the real data; the test is skipped where there is none."""

    def find(folder: str) -> Path:
        for root in REAL:
            if (root / folder).is_dir():
                return root
        pytest.skip(f"no real data: no folder {folder} in $ASKEW_DATA or beside the repository")

    return find
