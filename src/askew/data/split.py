"""Hold out a test set that has every class in its share, the same one in every run."""

from __future__ import annotations

import numpy as np

from askew.core import rng
from askew.core.errors import AskewError

# The split belongs to the data, not to the experiment: it must not move when a recipe's seed does.
_KEY = rng.key(0, "held-out test split")


def stratified_split(labels: np.ndarray, test_fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Divide the examples at random so that both parts have the classes in (nearly) the same proportions.

    Of a class with n examples, round(test_fraction * n) are held out; at least one if it has two, none if it has one.

    Args:
        labels: one per example; any values that can be compared.
        test_fraction: share of the examples to hold out, between 0 and 1.

    Returns:
        (train, test): sorted indices, the same for the same labels in every run and on every machine.

    Example:
        >>> train, test = stratified_split(np.repeat([0, 1], 10), test_fraction=0.2)
        >>> len(train), len(test)
        (16, 4)
    """
    if not 0 < test_fraction < 1:
        raise AskewError(f"test_fraction must be between 0 and 1, not {test_fraction}")
    classes, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if not np.any(counts > 1):
        raise AskewError(f"cannot hold out a test set: {len(labels)} examples, none of {len(classes)} classes has two; "
                         "give test examples of your own")
    wanted = np.clip(np.round(test_fraction * counts).astype(np.int64), np.minimum(1, counts - 1), counts - 1)
    test = take_per_class(label, wanted)
    return np.setdiff1d(np.arange(len(labels)), test), test


def take_per_class(label: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Sorted indices of `wanted[c]` examples of each class c, drawn with the fixed key of the held-out split."""
    order = rng.permutation(_KEY, len(label)).numpy()
    order = order[np.argsort(label[order], kind="stable")]  # by class, at random within it
    starts = np.searchsorted(label[order], np.arange(len(wanted)))
    rank = np.arange(len(order)) - starts[label[order]]
    return np.sort(order[rank < wanted[label[order]]])
