"""The data of the proof of `askew advise`, as one small .npz each: subsets that 40 federations can be trained on.

    python benchmarks/advise_data.py RAW local/advise_data

RAW holds the official archives, unpacked (mnist/, cifar-10-batches-bin/, speech_commands_v0.01/).

    mnist     3,000 training and 2,000 test images, 2 x 2 pixels averaged to 14 x 14
    cifar     3,000 training and 2,000 test images, 4 x 4 pixels averaged to 8 x 8, three colours (a network of two
              layers sees them: convolutions would take twenty times as long)
    speech    ten words, 10 MFCCs x 50 frames, averaged over 5 frames to 100 numbers; the 120 speakers with most
              training clips, their clips as they are; 1,500 test clips of other speakers
    cancer    scikit-learn's breast cancer table, 30 columns, standardised; a fifth for the test
    wine      its wine table, 13 columns, standardised; a fifth for the test
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from askew.core import registry
from askew.data.split import stratified_split


def chosen(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """As many of each class, at random."""
    draw = np.random.default_rng(seed)
    classes = np.unique(labels)
    return np.sort(np.concatenate([draw.choice(np.flatnonzero(labels == c), number // len(classes), replace=False)
                                   for c in classes]))


def images(name: str, raw: Path, train: int, test: int, side: int) -> dict[str, np.ndarray]:
    data = registry.build("data", name, data_dir=str(raw))
    arrays = {}
    for split, examples, number in (("train", data.train, train), ("test", data.test, test)):
        x, y = examples.x.numpy(), examples.y.numpy()
        at = chosen(y, number, seed=number)
        small = x[at].astype(np.float32)
        small = small.reshape(*small.shape[:-2], small.shape[-2] // side, side, small.shape[-1] // side,
                              side).mean(axis=(-3, -1))
        arrays |= {f"x_{split}": np.round(small).astype(np.uint8), f"y_{split}": y[at]}
    return arrays


def speech(raw: Path) -> dict[str, np.ndarray]:
    data = registry.build("data", "speech_commands", data_dir=str(raw))
    x = [examples.x.numpy() for examples in (data.train, data.test)]
    small = [part.reshape(len(part), 10, 5, 10).mean(axis=2).reshape(len(part), 100).astype(np.float32) for part in x]
    owners = data.client_ids
    ids, sizes = np.unique(owners, return_counts=True)
    kept = np.isin(owners, ids[np.argsort(-sizes, kind="stable")[:120]])
    test = chosen(data.test.y.numpy(), 1_500, seed=0)
    return {"x_train": small[0][kept], "y_train": data.train.y.numpy()[kept],
            "clients_train": np.unique(owners[kept], return_inverse=True)[1].astype(np.int64),
            "x_test": small[1][test], "y_test": data.test.y.numpy()[test],
            "clients_test": 100_000 + np.arange(len(test), dtype=np.int64)}


def table(name: str) -> dict[str, np.ndarray]:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    x, y = bunch.data.astype(np.float64), bunch.target
    train, test = stratified_split(y, 0.2)
    x = ((x - x[train].mean(axis=0)) / x[train].std(axis=0)).astype(np.float32)
    return {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}


if __name__ == "__main__":
    raw, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    makers = {"cancer": lambda: table("breast_cancer"), "wine": lambda: table("wine"),
              "mnist": lambda: images("mnist", raw, 3_000, 2_000, 2),
              "cifar": lambda: images("cifar10", raw, 3_000, 2_000, 4),
              "speech": lambda: speech(raw)}
    for name, make in makers.items():
        arrays = make()
        np.savez_compressed(out / f"{name}.npz", **arrays)
        sys.stdout.write(f"{name} { {key: value.shape for key, value in arrays.items()} }\n")
