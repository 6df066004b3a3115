"""Small files in the layouts of all data loaders."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

SPEECH = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def write_all(folder: Path) -> None:
    """Files for every loader of the table, and weights of `mlp(hidden=[16])` on the digits to start from."""
    generator = np.random.default_rng(0)
    for number, name in enumerate(("oak", "elm", "ash")):
        (folder / "images" / name).mkdir(parents=True)
        for k in range(6):
            pixels = generator.integers(0, 256, (4, 4, 3), dtype=np.uint8) // 2 + 40 * number
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / name / f"{k}.png")
    np.savez(folder / "arrays.npz", x=generator.normal(size=(40, 6)).astype(np.float32), y=np.arange(40) % 4,
             clients=np.arange(40) % 5)
    rows = [f"{a:.3f},{b:.3f},{i % 3},{'odd' if i % 2 else 'even'}"
            for i, (a, b) in enumerate(generator.normal(size=(40, 2)))]
    (folder / "rows.csv").write_text("\n".join(["left,right,owner,kind", *rows]) + "\n")
    _mnist(folder / "mnist", generator)
    _cifar(folder / "cifar-10-batches-bin", generator)
    _speech(folder / "speech_commands_v0.01")
    weights = torch.Generator().manual_seed(0)
    shapes = {"fc1.weight": (16, 64), "fc1.bias": (16,), "fc2.weight": (10, 16), "fc2.bias": (10,)}
    save_file({name: torch.randn(shape, generator=weights) * 0.1 for name, shape in shapes.items()},
              folder / "start.safetensors")


def _mnist(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir()
    for split, count in (("train", 30), ("t10k", 10)):
        for what, array in (("images-idx3", generator.integers(0, 256, (count, 28, 28))),
                            ("labels-idx1", np.arange(count) % 10)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{split}-{what}-ubyte").write_bytes(head + array.astype(np.uint8).tobytes())


def _cifar(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = generator.integers(0, 256, (10, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(10)
        records.tofile(folder / f"{name}.bin")


def _speech(folder: Path) -> None:
    lists: dict[str, list[str]] = {"testing_list.txt": [], "validation_list.txt": []}
    for number, word in enumerate(SPEECH):
        (folder / word).mkdir(parents=True)
        for speaker in ("aa", "bb", "cc"):
            tone = 8_000 * np.sin(2 * np.pi * (200 + 150 * number) * np.arange(16_000) / 16_000)
            with wave.open(str(folder / word / f"{speaker}_nohash_0.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16_000)
                file.writeframes(tone.astype("<i2").tobytes())
        lists["testing_list.txt"].append(f"{word}/bb_nohash_0.wav")
        lists["validation_list.txt"].append(f"{word}/cc_nohash_0.wav")
    for name, clips in lists.items():
        (folder / name).write_text("\n".join(clips) + "\n")
