"""Whole classes to each client, in contiguous blocks."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.apportion import even_sizes
from askew.partition.deal import check_clients, population_of


@piece("partition")
def label_blocks(source: Source, clients: int, seed: int = 0) -> Population:
    """Client 0 owns every example of the first block of classes, client 1 of the next, and so on.

    Two clients and ten classes give NIID(5): classes 0-4 and 5-9. Where `clients` does not divide the classes, the
    first blocks are one class longer.

    Args:
        source: labels of the examples to divide.
        clients: how many clients, at most one for each class.
        seed: kept with the population; nothing is drawn.

    Returns:
        The population. Sizes are those of the classes.

    Example:
        >>> label_blocks(Source(np.array([0, 1, 2, 3, 3]), 4), clients=2).counts.tolist()
        [[1, 1, 0, 0], [0, 0, 1, 2]]

    References:
        Ozdayi et al. 2020, table 1, "FL - NIID(5)".
    """
    check_clients("label_blocks", clients, source)
    if clients > source.num_classes:
        raise AskewError(f"label_blocks: clients={clients} but there are only {source.num_classes} classes to hand out "
                         f"whole; ask for at most {source.num_classes}, or use shards or classes_per_client")
    owner_of_class = np.repeat(np.arange(clients), even_sizes(source.num_classes, clients))
    owned = Ownership.by_owner(owner_of_class[source.labels], clients)
    return population_of(owned, source, seed, "label_blocks", clients=clients)
