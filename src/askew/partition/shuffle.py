"""The same federation without its skew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core.dataset import Source
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.population_spec import Combinator
from askew.core.registry import piece
from askew.partition.deal import generator


@piece("combinator")
def shuffle() -> Combinator:
    """All clients' examples, dealt out again at random to clients of the same sizes.

    What is left is chance and the sizes: who loses against this federation loses to skew. Noise on features stays as
    strong as it is, and is no longer one client's more than another's. Clients' own test examples become
    everybody's: such clients do not differ.

    Example:
        >>> source = Source(np.arange(100) // 50, 2)
        >>> askew.partition.draw("label_blocks(clients=2) + shuffle()", source).sizes.tolist()
        [50, 50]
    """
    return Combinator(change=_shuffled)


def _shuffled(population: Population, source: Source, seed: int) -> Population:
    held = population.validation
    both = population.train.indices if held is None else np.concatenate([population.train.indices, held.indices])
    dealt = generator(seed, "shuffle").permutation(both)
    cut = len(population.train.indices)
    train = Ownership(dealt[:cut], population.train.offsets)
    return replace(population, train=train, counts=train.counts(source.labels, population.num_classes), test=None,
                   validation=None if held is None else Ownership(dealt[cut:], held.offsets), groups=None,
                   noise_mixed=population.noise is not None)
