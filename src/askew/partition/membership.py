"""Which client holds which classes: a random table with fixed numbers of classes per client and clients per class."""

from __future__ import annotations

import numpy as np

# Every trade mixes a client with one random other; a few times log2(clients) passes forget the regular start.
_PASSES = 24


def random_membership(holders: np.ndarray, clients: int, draw: np.random.Generator) -> np.ndarray:
    """A random yes/no table, clients by classes, with equal row sums and the given column sums.

    Starts from a regular table and lets random pairs of clients trade the classes that only one of them has, which
    keeps all sums (the "curveball" of Strona et al. 2014). No draw is ever rejected, so it cannot fail or stall.

    Args:
        holders: how many clients hold each class: at most `clients` each, in sum a multiple of `clients`.
        clients: number of rows.
        draw: the random stream.

    Returns:
        bool table of shape (clients, classes).

    References:
        Strona, Nappo, Boccacci, Fattorini and San-Miguel-Ayanz 2014, "A fast and unbiased procedure to randomize
        ecological binary matrices with fixed row and column totals", Nature Communications 5:4114.
    """
    assert holders.max(initial=0) <= clients, "a class with more holders than clients would be held twice by one"
    assert holders.sum() % clients == 0, "rows must have equal sums"
    # Slots in class order, dealt round and round: a class has at most `clients` slots, so nobody gets it twice.
    slot_class = np.repeat(np.arange(len(holders)), holders)
    table = np.zeros((clients, len(holders)), bool)
    table[np.arange(len(slot_class)) % clients, slot_class] = True
    for _ in range(_PASSES):
        order = draw.permutation(clients)
        first, second = order[: clients // 2], order[clients // 2 : 2 * (clients // 2)]
        _trade(table, first, second, draw)
    return table


def _trade(table: np.ndarray, first: np.ndarray, second: np.ndarray, draw: np.random.Generator) -> None:
    a, b = table[first], table[second]
    either = a ^ b
    keys = draw.random(a.shape, dtype=np.float32)
    keys[~either] = 2.0  # behind all classes that are up for trade
    rank = np.empty(a.shape, np.int64)
    np.put_along_axis(rank, np.argsort(keys, axis=1), np.arange(a.shape[1])[None, :], axis=1)
    to_first = either & (rank < (a & ~b).sum(axis=1, keepdims=True))
    table[first] = (a & b) | to_first
    table[second] = (a & b) | (either & ~to_first)
