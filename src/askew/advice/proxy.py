"""A federation of which only label counts are known: the same label skew on other data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.data.skew_table import CountsTable
from askew.partition.apportion import round_systematically
from askew.partition.deal import deal, generator

LEAST = 4  # examples of a client: some to train on, one to judge by


def like_counts(table: CountsTable, data: Dataset, seed: int = 0) -> Dataset:
    """Examples of other data, owned by clients as the counts say: class i there stands for class i here.

    Where there are fewer examples than the counts ask for, all clients have the same part of what they have.

    Returns:
        The data with owners, for `natural()`; test examples of the classes that stand for some.
    """
    counts = table.counts
    if data.targets != "classes":
        raise AskewError(f"--counts: {data.name} has {data.targets} to learn, no classes; name other --data")
    if counts.shape[1] > data.num_classes:
        raise AskewError(f"--counts: {counts.shape[1]} classes cannot stand on {data.name}, which has "
                         f"{data.num_classes}; name --data with more classes, or join rare ones")
    if len(counts) < 2:
        raise AskewError("--counts: one client is no federation; write one row per client")
    classes = counts.shape[1]
    stock = np.bincount(data.labels_of(data.train), minlength=data.num_classes)[:classes]
    wanted = counts.sum(axis=0)
    scale = min(1.0, float((stock[wanted > 0] / wanted[wanted > 0]).min()))
    sizes = np.floor(scale * counts.sum(axis=1) + 1e-9).astype(np.int64)
    if (sizes < LEAST).any():
        k = int(sizes.argmin())
        raise AskewError(f"--counts: {data.name} has so few examples that client {table.clients[k]!r} would get "
                         f"{sizes[k]} of its {counts[k].sum():,}; name larger --data, or leave small clients out")
    draw = generator(seed, "like_counts")
    shares = counts / counts.sum(axis=1, keepdims=True)
    asked = round_systematically(shares, sizes, draw.random(len(counts)))
    for c in np.flatnonzero(asked.sum(axis=0) > stock):  # rounding may ask for a few too many of a scarce class
        for _ in range(int(asked[:, c].sum() - stock[c])):
            asked[asked[:, c].argmax(), c] -= 1
    labels = data.labels_of(data.train)
    kept = np.flatnonzero(labels < classes)
    owned = deal(asked, labels[kept], draw)
    order = torch.from_numpy(kept[owned.indices])
    test = torch.from_numpy(np.flatnonzero(data.labels_of(data.test) < classes))
    return replace(data, name=f"{data.name} in place of your data", classes=data.classes[:classes],
                   train=Examples(data.train.x[order], data.train.y[order]),
                   test=Examples(data.test.x[test], data.test.y[test]),
                   client_ids=np.repeat(np.arange(len(counts)), owned.sizes), test_client_ids=None,
                   client_names=tuple(table.clients))
