"""The federation that the data already are: one client for each natural owner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import generator, population_of


@piece("partition")
def natural(source: Source, clients: int | None = None, min_examples: int = 1, seed: int = 0) -> Population:
    """By the data set's own client column (the speaker, the writer, the hospital).

    Args:
        source: labels and `client_ids`.
        clients: None keeps all owners; a number keeps so many, chosen at random.
        min_examples: leave out owners with fewer training examples.
        seed: which owners are kept, where `clients` is given.

    Returns:
        The population, clients in the order of their ids. Each has its own test examples where the data name the
        owners of these too and any of them is a client (Speech Commands' test speakers are nobody's: then none have).

    Example:
        >>> source = Source(np.array([0, 1, 1]), 2, client_ids=np.array([7, 3, 7]))
        >>> natural(source).counts.tolist()
        [[0, 1], [1, 1]]

    References:
        Warden 2018, "Speech Commands": the speaker is the part of a file's name before `_nohash_`.
    """
    if source.client_ids is None:
        raise AskewError("natural: these data name no owner for an example; choose another scheme, e.g. dirichlet, or "
                         "data with a client column")
    if min_examples < 1:
        raise AskewError(f"natural: min_examples must be at least 1, not {min_examples}")
    ids, owner, sizes = np.unique(source.client_ids, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(sizes >= min_examples)
    if len(kept) == 0:
        raise AskewError(f"natural: no client has min_examples={min_examples}; the largest has {sizes.max()}")
    if clients is not None:
        if not 1 <= clients <= len(kept):
            raise AskewError(f"natural: clients={clients} is outside 1..{len(kept)}, the owners with at least "
                             f"{min_examples} examples")
        kept = np.sort(generator(seed, "natural").permutation(kept)[:clients])
    owned = Ownership.by_owner(_renumber(owner, kept, len(ids)), len(kept))
    population = population_of(owned, source, seed, "natural", clients=clients, min_examples=min_examples)
    return replace(population, test=_own_tests(source, ids[kept]))


def _renumber(owner: np.ndarray, kept: np.ndarray, number: int) -> np.ndarray:
    new = np.full(number, -1, np.int64)
    new[kept] = np.arange(len(kept))
    return new[owner]


def _own_tests(source: Source, ids: np.ndarray) -> Ownership | None:
    if source.test_client_ids is None:
        return None
    place = np.minimum(np.searchsorted(ids, source.test_client_ids), len(ids) - 1)
    owner = np.where(ids[place] == source.test_client_ids, place, -1)
    return Ownership.by_owner(owner, len(ids)) if (owner >= 0).any() else None
