"""Clients that are all alike: the federation without skew."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import by_class, check_clients, generator, population_of


@piece("partition")
def iid(source: Source, clients: int, stratified: bool = True, seed: int = 0) -> Population:
    """Equal sizes, and each client a small copy of the whole.

    All examples are used; sizes differ by at most one where `clients` does not divide them.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        stratified: spread each class evenly (counts of a class differ by at most one between clients); False draws
            at random, so that small clients show the skew of chance.
        seed: which examples go to whom.

    Returns:
        The population.

    Example:
        >>> iid(Source(np.array([0, 0, 1, 1]), 2), clients=2).counts.tolist()
        [[1, 1], [1, 1]]

    References:
        Zhao et al. 2018, section 2.1; Ozdayi et al. 2020, "FL - IID".
    """
    check_clients("iid", clients, source, by_class=False)
    draw = generator(seed, "iid")
    order = by_class(source.labels, draw) if stratified else draw.permutation(len(source.labels))
    owner = np.empty(len(order), np.int64)
    # Dealt like cards, from the sorted deck: any run of one class goes round all clients.
    owner[order] = draw.permutation(clients)[np.arange(len(order)) % clients]
    owned = Ownership.by_owner(owner, clients)
    return population_of(owned, source, seed, "iid", clients=clients, stratified=stratified)
