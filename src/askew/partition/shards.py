"""Sort by label, cut into shards, hand out the shards."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import by_class, check_clients, generator, population_of
from askew.partition.membership import random_membership


@piece("partition")
def shards(source: Source, clients: int, shards_per_client: int, distinct: bool = False, seed: int = 0) -> Population:
    """The sorted data in `clients * shards_per_client` shards of equal size, `shards_per_client` to each client.

    All examples are used; shards differ by at most one example. A shard that straddles two labels gives its client
    both, so "2 shards" are at most 2 classes only where class sizes are multiples of the shard size.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        shards_per_client: 1 with 10 clients is Zhao's non-IID(1), 2 with 100 clients McMahan's 200 shards.
        distinct: shards of one client come from different classes (judged by the label in a shard's middle), as
            Zhao's non-IID(2) asks: "2 partitions from 2 classes". McMahan's may come from one.
        seed: which shards go to whom. Examples of one label are cut in random order, not in the data set's.

    Returns:
        The population.

    Example:
        >>> shards(Source(np.array([0, 1, 0, 1]), 2), clients=2, shards_per_client=1).counts.max(axis=1).tolist()
        [2, 2]

    References:
        McMahan et al. 2017, section 3 (200 shards of 300); Zhao et al. 2018, section 2.1.
    """
    check_clients("shards", clients, source)
    if shards_per_client < 1:
        raise AskewError(f"shards: shards_per_client must be at least 1, not {shards_per_client}")
    number, examples = clients * shards_per_client, len(source.labels)
    if number > examples:
        raise AskewError(f"shards: {clients} clients x {shards_per_client} shards are more than the {examples} "
                         "examples; ask for fewer of either")
    draw = generator(seed, "shards")
    order = by_class(source.labels, draw)
    bounds = np.arange(number + 1) * examples // number
    if distinct:
        owner_of_shard = _owners_of_distinct(source.labels[order[(bounds[:-1] + bounds[1:]) // 2]], clients,
                                             source.num_classes, shards_per_client, draw)
    else:
        owner_of_shard = draw.permutation(number) // shards_per_client
    owner = np.empty(examples, np.int64)
    owner[order] = np.repeat(owner_of_shard, np.diff(bounds))
    return population_of(Ownership.by_owner(owner, clients), source, seed, "shards", clients=clients,
                         shards_per_client=shards_per_client, distinct=distinct)


def _owners_of_distinct(labels: np.ndarray, clients: int, num_classes: int, each: int,
                        draw: np.random.Generator) -> np.ndarray:
    """Owner of each shard, given the shards' (ascending) labels, so that no client has a label twice."""
    per_label = np.bincount(labels, minlength=num_classes)
    if per_label.max() > clients:
        raise AskewError(f"shards: class {per_label.argmax()} fills {per_label.max()} of {clients * each} shards, so "
                         f"{clients} clients cannot each have distinct classes; use distinct=false or fewer "
                         "shards_per_client")
    table = random_membership(per_label, clients, draw)
    # Holders of each label in random order, labels ascending: the order in which the shards lie.
    return np.concatenate([draw.permutation(np.flatnonzero(table[:, label])) for label in range(num_classes)])
