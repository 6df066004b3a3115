"""A part of every client's examples, for experiments that are to be small."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from askew.core.bounds import Bounds
from askew.core.dataset import Source
from askew.core.population import Population
from askew.core.population_spec import Combinator
from askew.core.registry import piece
from askew.partition.deal import parted
from askew.partition.validation import validation_stream


@piece("combinator")
def subset(fraction: Annotated[float, Bounds(0, 1, open_low=True)]) -> Combinator:
    """Each client keeps a random fraction of its training examples, at least one; nobody has the others.

    Sizes keep their proportions, and clients, but for chance, their classes. Validation and test sets stay whole. The
    examples that a client keeps are those that `validation(1 - fraction)` would leave it to train on.

    Example:
        >>> askew.partition.draw("iid(clients=2) + subset(0.04)", Source(np.arange(100) % 10, 10)).sizes.tolist()
        [2, 2]
    """
    return Combinator(change=lambda population, source, seed: _reduced(population, source, fraction, seed))


def _reduced(population: Population, source: Source, fraction: float, seed: int) -> Population:
    dropped = np.clip(np.round((1 - fraction) * population.sizes).astype(np.int64), 0, population.sizes - 1)
    _, train = parted(population.train, dropped, validation_stream(seed))
    return replace(population, train=train, counts=train.counts(source.labels, population.num_classes))
