"""Devices drawn from archetypes: each with its own training, validation and test examples.

Shared by `hierarchical` and `hypergeometric`, which only say how an archetype distributes its labels. The training
set is first split into a training part and a validation part (40,000 and 10,000 of CIFAR-10), the same for all
devices, so no device validates on what any device trains on (the authors' notebook does). Each device then draws
from the parts without repetition; two devices may draw the same example, because 30 devices of 5,000 need more
than 40,000 images hold.

References:
    The FedCD paper 2020, section 3.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.partition.apportion import round_systematically
from askew.partition.deal import by_class, generator, population_of


def draw_devices(scheme: str, source: Source, shares: np.ndarray, groups: np.ndarray, examples: int | None,
                 validation: float, seed: int, **args: Any) -> Population:
    """A population whose device k has labels distributed as `shares[k]`, in training, validation and test alike.

    Args:
        scheme: its name.
        source: labels of training and test examples.
        shares: label distribution of each device.
        groups: archetype of each device.
        examples: training examples per device; None takes an eighth of the training part (5,000 of 40,000), less where
            a class of it is too small for the most one-sided device.
        validation: fraction of the training set that makes the validation part.
        seed: of all draws.
        args: the scheme's other arguments, for its text.

    Returns:
        The population. Validation and test sets are to a device's training set as their parts are to the training part.
    """
    if not 0 < validation < 1:
        raise AskewError(f"{scheme}: validation={validation} must be between 0 and 1; 0.2 sets 10,000 of 50,000 aside")
    draw = generator(seed, scheme)
    train_indices, validation_indices = _split_each_class(source.labels, validation, draw)
    size = _size(scheme, source.labels[train_indices], shares, examples)

    def part(name: str, labels: np.ndarray, indices: np.ndarray) -> Ownership:
        most = _most(labels[indices], shares)
        wanted = max(1, round(size * len(indices) / len(train_indices)))
        if most < 1:
            raise AskewError(f"{scheme}: the {name} examples lack a class that a device needs; use data with more "
                             "examples")
        return _drawn(labels, indices, shares, min(wanted, most), draw)

    train = _drawn(source.labels, train_indices, shares, size, draw)
    held = part("validation", source.labels, validation_indices)
    test = None
    if source.test_labels is not None:
        test = part("test", source.test_labels, np.arange(len(source.test_labels)))
    population = population_of(train, source, seed, scheme, **args, examples=examples, validation=validation)
    return replace(population, validation=held, test=test, groups=groups)


def _split_each_class(labels: np.ndarray, fraction: float, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(rest, a fraction of each class): a stratified split."""
    order = by_class(labels, draw)
    sizes = np.bincount(labels[order])
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = rank < np.rint(fraction * sizes).astype(np.int64)[labels[order]]
    return np.sort(order[~held]), np.sort(order[held])


def _most(labels: np.ndarray, shares: np.ndarray) -> int:
    """The largest size at which every device finds enough of each class, rounding up included."""
    stock = np.bincount(labels, minlength=shares.shape[1])
    wanted = shares.max(axis=0)
    return int(np.floor((np.maximum(stock - 1, 0)[wanted > 0] / wanted[wanted > 0]).min()))


def _size(scheme: str, labels: np.ndarray, shares: np.ndarray, examples: int | None) -> int:
    most = _most(labels, shares)
    size = min(len(labels) // 8, most) if examples is None else examples
    if not 1 <= size <= most:
        raise AskewError(f"{scheme}: examples={size} a device is outside 1..{most}: a class of the {len(labels)} "
                         "training examples would run out; ask for a number in that range")
    return size


def _drawn(labels: np.ndarray, indices: np.ndarray, shares: np.ndarray, size: int,
                    draw: np.random.Generator) -> Ownership:
    devices, classes = shares.shape
    counts = round_systematically(shares, np.full(devices, size), np.full(devices, 0.5))
    of_class = [indices[labels[indices] == label] for label in range(classes)]
    # A loop over devices, unlike elsewhere: each needs its own draw without repetition.
    return Ownership.of([np.sort(np.concatenate([draw.permutation(of_class[label])[:number]
                                                 for label, number in enumerate(row)])) for row in counts.tolist()])
