"""A validation set on each device, taken from its own examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from askew.core import rng
from askew.core.bounds import Bounds
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.population_spec import Combinator
from askew.core.registry import piece
from askew.partition.deal import parted


@piece("combinator")
def validation(fraction: Annotated[float, Bounds(0, 1, open_low=True, open_high=True)]) -> Combinator:
    """A random fraction of each client's training examples (at least one) becomes its validation set.

    A client always keeps at least one example for training. Devices that have validation
    sets of their scheme keep those.

    Example:
        >>> population = askew.partition.draw("iid(clients=2) + validation(0.2)", Source(np.arange(100) % 10, 10))
        >>> population.sizes.tolist(), population.validation.sizes.tolist()
        ([40, 40], [10, 10])
    """
    return Combinator(change=lambda population, source, seed: _with_validation(population, source, fraction, seed))


def _with_validation(population: Population, source: Source, fraction: float, seed: int) -> Population:
    if population.validation is not None:
        return population
    few = np.flatnonzero(population.sizes < 2)
    if len(few):
        raise AskewError(f"validation: client {few[0]} has {population.sizes[few[0]]} example; two are needed, "
                         f"one to train and one to validate ({len(few):,} of {len(population.sizes):,} clients have "
                         "fewer): ask for fewer clients, or leave small ones out, as natural(min_examples=2) does")
    wanted = np.clip(np.round(fraction * population.sizes).astype(np.int64), 1, population.sizes - 1)
    held, train = parted(population.train, wanted, validation_stream(seed))
    return replace(population, train=train, validation=held, counts=train.counts(source.labels, population.num_classes))


def validation_stream(seed: int) -> np.random.Generator:
    """The random numbers that decide which examples a client does not train on."""
    return np.random.Generator(np.random.Philox(rng.int_seed(seed, "validation")))
