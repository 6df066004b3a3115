"""Are the files on disk the data set, whole and unchanged?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from askew.core.errors import AskewError
from askew.data.cifar10 import BATCHES, find_batch, read_batch
from askew.data.cifar10 import FOLDERS as CIFAR10_FOLDERS
from askew.data.digits import digits
from askew.data.downloads import find_data_set
from askew.data.locate import find_folder
from askew.data.mnist import FILES, find_idx, read_bytes
from askew.data.mnist import FOLDERS as MNIST_FOLDERS
from askew.data.speech_commands import TEST_LIST, VALIDATION_LIST, WORDS, find_clips, folders, read_clip, read_list

# SHA-256 of what each file holds (MNIST: unpacked), so that it does not matter how it was compressed.
_MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
# Of each batch as binary records; the Python archive holds the same images in the same order.
_CIFAR10 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
# Clips of each word, in the order of WORDS. The archive's own SHA-256 was checked at download; the
# clips of an unpacked folder have no published hashes, so they are counted and each is read.
_SPEECH_COMMANDS = {
    "speech_commands_v0.01": (2377, 2375, 2375, 2359, 2353, 2367, 2367, 2357, 2380, 2372),
    "speech_commands_v0.02": (4044, 3941, 3723, 3917, 3801, 3778, 3845, 3745, 3872, 3880),
}
_DIGITS = "fd053df041dc5003a8dfd4288ed162b6a0d02eb9c90dc348f175d5aaf92825dc"


def present(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The data set's folder if all its files are there (their content is not looked at), else None."""
    try:
        return _find(find_data_set(name).name, data_dir)
    except AskewError:
        return None


def verify(name: str, data_dir: str | Path | None = None) -> list[dict[str, str]]:
    """Read the data set and compare it with what is published about it.

    Returns:
        What was checked: one `{"file": ..., "check": ...}` each. The first thing amiss is an `AskewError`.
    """
    if name == "digits":
        return _verify_digits()
    name = find_data_set(name).name
    checks: dict[str, Callable[[Path], list[dict[str, str]]]] = {"mnist": _verify_mnist, "cifar10": _verify_cifar10}
    return checks.get(name, _verify_speech_commands)(_find(name, data_dir))


def _find(name: str, data_dir: str | Path | None) -> Path:
    """The folder of the data set; a missing file is an error that names it."""
    if name == "mnist":
        folder = find_folder(name, MNIST_FOLDERS, data_dir)
        for file in FILES:
            find_idx(folder, file, data_dir)
    elif name == "cifar10":
        folder = find_folder(name, CIFAR10_FOLDERS, data_dir)
        for batch in BATCHES:
            find_batch(folder, batch, data_dir)
    else:
        folder = find_folder(name, folders(name), data_dir)
        find_clips(folder, data_dir)
        for file in (TEST_LIST, VALIDATION_LIST):
            read_list(folder, file, data_dir)
    return folder


def _verify_mnist(folder: Path) -> list[dict[str, str]]:
    done = []
    for file, expected in _MNIST.items():
        path = find_idx(folder, file)
        _compare(path, hashlib.sha256(read_bytes(path)).hexdigest(), expected)
        done.append({"file": str(path), "check": "SHA-256 of its content"})
    return done


def _verify_cifar10(folder: Path) -> list[dict[str, str]]:
    done = []
    for batch, expected in _CIFAR10.items():
        path = find_batch(folder, batch)
        _compare(path, hashlib.sha256(read_batch(path).tobytes()).hexdigest(), expected)
        done.append({"file": str(path), "check": "SHA-256 of its images and labels"})
    return done


def _verify_speech_commands(folder: Path) -> list[dict[str, str]]:
    clips = find_clips(folder)
    words = np.array([clip.split("/")[0] for clip in clips])
    done = []
    for word, expected in zip(WORDS, _SPEECH_COMMANDS[folder.name], strict=True):
        places = np.flatnonzero(words == word)
        if len(places) != expected:
            raise AskewError(f"{folder / word}: {len(places)} clips, {expected} expected; remove it all and get it "
                             "again")
        for i in places:
            read_clip(folder / clips[i])
        done.append({"file": str(folder / word), "check": f"{expected} clips, each read"})
    for name in (TEST_LIST, VALIDATION_LIST):
        listed = {clip for clip in read_list(folder, name) if clip.split("/")[0] in WORDS}
        absent = sorted(listed.difference(clips))
        if absent or not listed:
            problem = f"lists {absent[0]}, which is not there" if absent else "lists no clip of the ten words"
            raise AskewError(f"{folder / name} {problem}; remove it all and get it again")
        done.append({"file": str(folder / name), "check": f"its {len(listed)} clips of the ten words are there"})
    return done


def _verify_digits() -> list[dict[str, str]]:
    data = digits()
    content = b"".join(part.numpy().tobytes() for part in (data.train.x, data.train.y, data.test.x, data.test.y))
    _compare(Path("digits (embedded)"), hashlib.sha256(content).hexdigest(), _DIGITS)
    return [{"file": "digits (embedded)", "check": "SHA-256 of its images, labels and split"}]


def _compare(path: Path, checksum: str, expected: str) -> None:
    if checksum != expected:
        raise AskewError(f"{path}: the SHA-256 of its content is {checksum}, not {expected}; remove it and get it "
                         "again")
