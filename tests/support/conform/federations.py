"""Federations by the number of each client's examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from askew.core.dataset import Dataset
from askew.core.population import Ownership, Population


def of_sizes(data: Dataset, sizes: Sequence[int], seed: int = 0) -> Population:
    """Clients that own so many training examples each, drawn without regard to their classes."""
    order = np.random.default_rng(seed).permutation(len(data.train))
    assert sum(sizes) <= len(order), f"{sum(sizes)} examples wanted, {len(order)} there"
    ends = np.cumsum(sizes)
    parts = [order[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return Population.of(Ownership.of(parts), data.labels_of(data.train), data.num_classes)


# Examples of each client, B, E, and other settings of the recipe. With BatchNorm no batch has one example.
FEDERATIONS: dict[str, dict] = {
    "unequal sizes and steps": {"sizes": [3, 40, 17, 8, 26], "batch_size": 8, "epochs": 2},
    "a client with one example": {"sizes": [1, 30, 12], "batch_size": 5},
    "every client with one example": {"sizes": [1, 1, 1, 1], "batch_size": 4, "epochs": 2},
    "one client": {"sizes": [21], "batch_size": 4},
    "one client with one example": {"sizes": [1], "batch_size": 4},
    "whole batches": {"sizes": [16, 16, 16], "batch_size": 8},
    "whole batches, other numbers of them": {"sizes": [24, 8, 16, 8], "batch_size": 8, "epochs": 2},
    "one batch, less than whole": {"sizes": [7, 5, 7, 3], "batch_size": 8, "epochs": 3},
    "one batch less an example": {"sizes": [15, 15, 16, 17], "batch_size": 8},
    "all examples at once": {"sizes": [9, 20, 4, 13], "batch_size": 0, "epochs": 3},
    "one example a batch": {"sizes": [3, 5, 2], "batch_size": 1},
    "one client is sampled": {"sizes": [9, 20, 4, 13, 7], "batch_size": 6, "fraction": 0.2},
    "half are sampled": {"sizes": [9, 20, 4, 13, 7, 31], "batch_size": 6, "fraction": 0.5},
    "more clients than a chunk holds": {"sizes": [5, 9, 2, 14, 7, 3, 11, 6, 1], "batch_size": 4},
    "one far larger than the others": {"sizes": [2, 150, 3], "batch_size": 8},
}
