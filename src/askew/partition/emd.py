"""Clients at an exact distance from the population: one class distribution, shifted from client to client."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.apportion import fill_in_proportion, round_systematically
from askew.partition.deal import check_clients, class_totals, deal, generator, population_of

_TOLERANCE = 1e-3


@piece("partition")
def emd(source: Source, clients: int, emd: float, seed: int = 0) -> Population:
    r"""Every client at the asked earth mover's distance from the pool, which stays uniform over the classes.

    One random distribution P with $\sum_c |P(c) - 1/C|$ = `emd` is drawn; client k owns M examples distributed as P
    shifted by k classes. After C clients each class has been used equally often, so the pool is exactly uniform and
    all EMDs are equal. M is the largest multiple of C that the smallest class permits and with which whole numbers
    hit the distance to 0.001 (never less than half of what the class permits); what does not fit is left out, and
    `class_totals` counts only the examples used.

    Args:
        source: labels of the examples to divide.
        clients: how many clients: a multiple of the number of classes, or the pool would not be uniform.
        emd: 0 (all alike) to 2 (1 - 1/C) (one class per client).
        seed: which P, and which examples.

    Returns:
        The population. Clients k and k + C have the same distribution.

    Example:
        >>> one_class = emd(Source(np.arange(40) % 2, 2), clients=2, emd=1.0)
        >>> sorted(one_class.counts.tolist())
        [[0, 20], [20, 0]]

    References:
        Zhao et al. 2018, section 3.2.1 and table 2.
    """
    check_clients("emd", clients, source)
    classes = source.num_classes
    largest = 2 * (1 - 1 / classes)
    if not 0 <= emd <= largest + 1e-9:  # NaN fails this too
        raise AskewError(f"emd: emd={emd} is out of range for {classes} classes; ask for 0 to {largest:.6g}")
    if clients % classes:
        raise AskewError(f"emd: clients={clients} must be a multiple of the {classes} classes, so that the shifts of "
                         "one distribution add up to an even pool")
    draw = generator(seed, "emd")
    totals = class_totals(source)
    size, moved = _size_and_moved("emd", emd, classes, clients, int(totals.min()))
    one = _random_counts(size, moved, classes, draw)
    shifts = (np.arange(classes)[None, :] - np.arange(clients)[:, None]) % classes
    counts = one[shifts]
    population = population_of(deal(counts, source.labels, draw), source, seed, "emd", clients=clients, emd=emd)
    # What was divided is what was used: real classes are unequal, the pool that EMD compares with is even.
    return replace(population, class_totals=counts.sum(axis=0))


def _size_and_moved(scheme: str, emd: float, classes: int, clients: int, smallest: int) -> tuple[int, int]:
    """Examples per client, and how many of them lie above the even share: EMD = 2 moved / size."""
    cycles = clients // classes
    most = smallest // cycles // classes * classes
    if most == 0:
        raise AskewError(f"{scheme}: the smallest class has {smallest} examples, {clients} clients need at least "
                         f"{cycles * classes} of each; ask for fewer clients")
    sizes = np.arange(most, most // 2, -classes)
    moved = np.minimum(np.rint(emd * sizes / 2), sizes - sizes // classes).astype(np.int64)
    errors = np.abs(2 * moved / sizes - emd)
    good = np.flatnonzero(errors <= _TOLERANCE + 1e-12)
    if len(good) == 0:
        best = int(errors.argmin())
        raise AskewError(f"{scheme}: emd={emd} cannot be hit to {_TOLERANCE} with at most {most} examples per client; "
                         f"the nearest is emd={2 * moved[best] / sizes[best]:.6g}: ask for it, or for fewer clients")
    return int(sizes[good[0]]), int(moved[good[0]])


def _random_counts(size: int, moved: int, classes: int, draw: np.random.Generator) -> np.ndarray:
    """Random whole numbers that sum to `size`, of which `moved` lie above the even share (and as many below it)."""
    even = size // classes
    if moved == 0:
        return np.full(classes, even, np.int64)
    fewest_below = math.ceil(moved / even)  # a class can give up no more than its even share
    below = int(draw.integers(fewest_below, classes))
    order = draw.permutation(classes)
    down, up = order[:below], order[below:]
    counts = np.full(classes, even, np.int64)
    lost = fill_in_proportion(draw.dirichlet(np.ones(below)), moved, np.full(below, float(even)))
    counts[down] -= _whole(lost, moved)
    counts[up] += _whole(draw.dirichlet(np.ones(classes - below)) * moved, moved)
    return counts


def _whole(parts: np.ndarray, total: int) -> np.ndarray:
    """Parts that sum to `total`, as whole numbers: each rounded up or down."""
    return round_systematically(parts[None] / total, np.array([total]), np.array([0.5]))[0]
