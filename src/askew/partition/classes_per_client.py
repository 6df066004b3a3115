"""Exactly c classes per client."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.apportion import fill_in_proportion, round_systematically
from askew.partition.deal import check_classes, check_clients, class_totals, deal, generator, population_of
from askew.partition.membership import random_membership


@piece("partition")
def classes_per_client(source: Source, clients: int, classes: int, equal_sizes: bool = False,
                       seed: int = 0) -> Population:
    """Each client holds exactly `classes` classes, chosen at random; holders of a class share it evenly.

    A class has holders in proportion to its size, so sizes are nearly equal (exactly, up to one example per class,
    where the classes are equal and `clients * classes` is a multiple of their number). All examples are used, unless
    there are fewer places than classes (`clients * classes` below the number of classes): then some classes,
    chosen at random, belong to nobody.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        classes: how many classes each client has.
        equal_sizes: the same number of examples from every class of every client; leaves out what does not fit.
        seed: which classes, and which examples of them.

    Returns:
        The population.

    Example:
        >>> (classes_per_client(Source(np.arange(12) % 3, 3), clients=3, classes=2).counts > 0).sum(axis=1).tolist()
        [2, 2, 2]

    References:
        "Clients have images of only 2 classes": the FedNNNN paper 2020, section 4, non-IID balanced (`equal_sizes`).
    """
    check_clients("classes_per_client", clients, source)
    totals = class_totals(source)
    check_classes("classes_per_client", classes, totals)
    draw = generator(seed, "classes_per_client")
    holders = _holders(totals, clients, classes, draw)
    table = random_membership(holders, clients, draw)
    owned = deal(_even_counts(table, totals, equal_sizes, draw), source.labels, draw)
    return population_of(owned, source, seed, "classes_per_client", clients=clients, classes=classes,
                         equal_sizes=equal_sizes)


def _holders(totals: np.ndarray, clients: int, classes: int, draw: np.random.Generator) -> np.ndarray:
    """How many clients hold each class: in proportion to its size, and each class at least one if there are places."""
    places = clients * classes
    limits = np.minimum(totals, clients)  # a holder needs an example; a client holds a class once
    if limits.sum() < places:
        raise AskewError(f"classes_per_client: {clients} clients x {classes} classes need {places} places, the data "
                         f"have room for {limits.sum()}; ask for fewer clients or classes")
    at_least = (totals > 0).astype(np.int64) if places >= (totals > 0).sum() else np.zeros(len(totals), np.int64)
    rest = places - int(at_least.sum())
    shares = fill_in_proportion(totals.astype(float), rest, (limits - at_least).astype(float))
    if rest == 0:
        return at_least
    # A random order and offset choose which class has a holder more; limits are whole, so rounding up respects them.
    order = draw.permutation(len(totals))
    rounded = np.zeros(len(totals), np.int64)
    rounded[order] = round_systematically(shares[None, order] / shares.sum(), np.array([rest]), draw.random(1))[0]
    return at_least + rounded


def _even_counts(table: np.ndarray, totals: np.ndarray, equal_sizes: bool, draw: np.random.Generator) -> np.ndarray:
    holders = table.sum(axis=0)
    if equal_sizes:
        each = (totals[holders > 0] // holders[holders > 0]).min()
        return table * each
    each = totals // np.maximum(holders, 1)
    # What a class has left over goes, one each, to random holders of it.
    extra = np.where(holders > 0, totals - each * holders, 0)
    keys = np.where(table, draw.random(table.shape), 2.0)
    rank = np.empty(table.shape, np.int64)
    np.put_along_axis(rank, np.argsort(keys, axis=0), np.arange(len(table))[:, None], axis=0)
    return table * each + (table & (rank < extra))
