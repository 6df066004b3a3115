"""A validation set on each device, taken from its own examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core import rng
from askew.core.errors import AskewError
from askew.core.population import Ownership, Population


def with_validation(population: Population, fraction: float, labels: np.ndarray, seed: int) -> Population:
    """Move a random fraction of each client's training examples (at least one) to its validation set.

    Args:
        fraction: in (0, 1); a client always keeps at least one example for training.
        labels: of the training examples, to count classes anew.
    """
    few = np.flatnonzero(population.sizes < 2)
    if len(few):
        raise AskewError(f"validation: client {few[0]} has {population.sizes[few[0]]} example; two are needed, "
                         "one to train and one to validate")
    draw = np.random.Generator(np.random.Philox(rng.int_seed(seed, "validation"))).random(len(population.train.indices))
    owner = np.repeat(np.arange(population.num_clients), population.sizes)
    order = np.lexsort((draw, owner))  # by client, within a client at random
    rank = np.arange(len(order)) - population.train.offsets[owner[order]]
    wanted = np.clip(np.round(fraction * population.sizes).astype(np.int64), 1, population.sizes - 1)
    held = np.zeros(len(order), bool)
    held[order] = rank < wanted[owner[order]]

    def part(mask: np.ndarray) -> Ownership:
        sizes = np.bincount(owner[mask], minlength=population.num_clients)
        return Ownership(population.train.indices[mask], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    train = part(~held)
    return replace(population, train=train, validation=part(held), counts=train.counts(labels, population.num_classes))
