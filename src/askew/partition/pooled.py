"""One client that owns everything: the centralised ceiling of every comparison."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import check_clients, population_of


@piece("partition")
def pooled(source: Source, seed: int = 0) -> Population:
    """All examples with one client, in their order.

    Args:
        source: labels of the examples.
        seed: kept with the population; nothing is drawn.

    Returns:
        A population of one.

    Example:
        >>> pooled(Source(np.array([0, 1, 1]), 2)).counts.tolist()
        [[1, 2]]

    References:
        The "SGD" and "centralised" rows of Zhao et al. 2018, table 1, and Ozdayi et al. 2020, table 1.
    """
    check_clients("pooled", 1, source, by_class=False)
    return population_of(Ownership.of([np.arange(len(source.labels))]), source, seed, "pooled")
