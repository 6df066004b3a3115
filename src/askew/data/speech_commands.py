"""Google Speech Commands (Warden 2018): one-second clips of spoken words, as 10 MFCCs of 50 frames."""

from __future__ import annotations

import contextlib
import hashlib
import os
import wave
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from askew.core.arrays import read_arrays
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line
from askew.core.files import check_regular, read_text, written
from askew.core.registry import piece
from askew.data.locate import cache_folder, find_folder, missing_file
from askew.data.mfcc import Mfcc

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
TEST_LIST, VALIDATION_LIST = "testing_list.txt", "validation_list.txt"
RATE = 16_000  # samples per second, and in a clip
_CHUNK = 100  # clips at a time: their frames (10 MB) stay near the processor, which is 4 times faster than 1,000


@piece("data")
def speech_commands(version: Literal["0.01", "0.02"] = "0.01", validation: Literal["train", "drop"] = "drop",
                    data_dir: str | None = None) -> Dataset:
    """Ten command words of Speech Commands with the official split; speakers are the natural clients.

    Each clip becomes 10 MFCCs in frames of 30 ms every 20 ms (`askew.data.mfcc`). A second holds 49 whole frames; the
    papers' 50th, which starts at 0.98 s, is filled with 10 ms of zeros. Clips shorter than a second get zeros at the
    end, longer ones are cut. Features are kept on disk after the first time, beside the data or in the cache folder.

    Args:
        version: of the data set.
        validation: what becomes of the official validation clips: added to the training clips, or left out (zhao2018
            does not say; left out, nobody who tunes on them has trained on them).
        data_dir: folder that holds the data sets; see `askew.data.locate`.

    Returns:
        A data set of float32 inputs [N, 1, 50, 10] and ten classes; client ids number the speakers.

    References:
        P. Warden, "Speech Commands: a dataset for limited-vocabulary speech recognition", arXiv:1804.03209, 2018.
        Y. Zhao et al., "Federated learning with non-IID data", 2018, section 2.1.
    """
    folder_name = f"speech_commands_v{version}"
    folder = find_folder(folder_name, folders(folder_name), data_dir)
    clips = find_clips(folder, data_dir)
    features = torch.from_numpy(_features(folder, clips))[:, None]
    label = torch.tensor([WORDS.index(clip.split("/")[0]) for clip in clips])
    speaker = np.unique([clip.split("/")[1].split("_nohash_")[0] for clip in clips], return_inverse=True)[1]
    lists = [read_list(folder, name, data_dir) for name in (TEST_LIST, VALIDATION_LIST)]
    test, held = (np.array([clip in names for clip in clips]) for names in lists)
    train = ~test if validation == "train" else ~(test | held)
    for split, chosen in (("training", train), ("test", test)):
        if not chosen.any():
            raise AskewError(f"{folder}: no {split} clips of the ten words; is {TEST_LIST} that of this version?")
    return Dataset(folder_name, Examples(features[train], label[train]), Examples(features[test], label[test]), WORDS,
                   client_ids=speaker[train], test_client_ids=speaker[test])


def folders(name: str) -> tuple[str, str]:
    """Where the data set `speech_commands_vX` can be: our place, and where torchaudio puts it."""
    return name, f"SpeechCommands/{name}"


def find_clips(folder: Path, data_dir: str | Path | None = None) -> list[str]:
    """The clips of the ten words as WORD/SPEAKER_nohash_N.wav, sorted within each word."""
    clips: list[str] = []
    for word in WORDS:
        if not os.path.isdir(folder / word):
            raise missing_file(folder.name, f"{word}/", folder, data_dir)
        try:
            files = sorted(name for name in os.listdir(folder / word) if name.endswith(".wav"))
        except OSError as error:
            raise AskewError(f"{folder / word} cannot be read: {error.strerror or error}") from None
        if not files:
            raise missing_file(folder.name, f"{word}/*.wav", folder, data_dir)
        clips += [f"{word}/{name}" for name in files]
    return clips


def read_list(folder: Path, name: str, data_dir: str | Path | None = None) -> set[str]:
    """The clips that an official list names (of all words, not only the ten)."""
    if not os.path.lexists(folder / name):
        raise missing_file(folder.name, name, folder, data_dir)
    return set(read_text(folder / name, "list of clips").split())


def read_clip(path: Path) -> np.ndarray:
    """One second of samples as int16: zeros after a shorter clip, the first second of a longer one."""
    check_regular(path, "wav file")
    try:
        with wave.open(str(path)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if form != (1, 2, RATE):  # before a sample is read: a second of 65,535 channels fills the memory
                raise AskewError(f"{path}: {form[0]} channels of {8 * form[1]} bits at {form[2]} Hz; "
                                 f"one channel of 16 bits at {RATE} Hz is needed")
            promised = min(file.getnframes(), RATE)
            content = file.readframes(RATE)
    except AskewError:
        raise
    except OSError as error:
        raise AskewError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a damaged file fails in many ways: those of `wave`, of `struct`, of seeking
        reason = first_line(error) if str(error) else "it ends too early"
        raise AskewError(f"{path} is not a whole wav file ({reason}); get it again") from None
    if len(content) != 2 * promised:
        raise AskewError(f"{path}: {len(content) // 2} samples, its header says {promised}; get it again")
    samples = np.zeros(RATE, np.int16)
    samples[:promised] = np.frombuffer(content, "<i2")
    return samples


def _features(folder: Path, clips: list[str]) -> np.ndarray:
    """MFCCs of the clips, float32 [N, 50, 10]: from the cache if it was made from these very files, else computed."""
    mfcc = Mfcc()
    digest = hashlib.sha256("\n".join(f"{clip} {_size(folder / clip)}" for clip in clips).encode(errors="replace"))
    name = f"{folder.name}-{mfcc}-{digest.hexdigest()[:16]}.npz"
    places = [folder.parent / "features" / name, cache_folder() / "features" / name]
    for place in places:
        with contextlib.suppress(AskewError):  # none, or one that is damaged
            cached = read_arrays(place, "file of features").get("features", np.zeros(0))
            if cached.shape == (len(clips), 50, 10) and cached.dtype == np.float32 and np.isfinite(cached).all():
                return cached
    features = np.empty((len(clips), 50, 10), np.float32)
    for first in range(0, len(clips), _CHUNK):
        samples = np.stack([read_clip(folder / clip) for clip in clips[first : first + _CHUNK]])
        features[first : first + _CHUNK] = mfcc(torch.from_numpy(samples).to(torch.float32) / 32_768).numpy()
    for place in places:  # a folder that cannot be written to is no error: the features are only slower next time
        with contextlib.suppress(OSError, AskewError):
            place.parent.mkdir(parents=True, exist_ok=True)
            with written(place) as aside, aside.open("wb") as file:
                np.savez(file, features=features)
            break
    return features


def _size(clip: Path) -> int:
    try:
        return clip.stat().st_size
    except OSError as error:
        raise AskewError(f"{clip} cannot be read: {error.strerror or error}; get it again") from None
