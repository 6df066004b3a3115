"""Unbalanced sizes: a few clients hold most of the data."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import check_classes, check_clients, class_totals, deal, generator, population_of

_SHRINK = 0.97  # factor on all sizes each time that they do not fit into whole classes
_LOYALTY = 4.0  # how strongly a client prefers classes with much left: enough to pack well, still random


@piece("partition")
def power_law(source: Source, clients: int, exponent: float = 1.0, classes: int | None = None, min_examples: int = 1,
              seed: int = 0) -> Population:
    r"""The r-th largest client owns $n_r \propto r^{-\text{exponent}}$ examples, at least `min_examples`.

    Sizes are a fixed function of rank, so every seed is equally unbalanced; which client has which rank is random.
    The paper gives neither exponent nor minimum: at 1.0 a tenth of 100 clients holds 56% of the data.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        exponent: 0 gives equal sizes; larger is less balanced.
        classes: None draws every client's examples at random from all (IID); c gives each client exactly c classes,
            an even number of examples of each. The largest clients may then want more than c classes hold: all sizes
            are scaled down, by the same factor, until they fit, and the examples left over belong to nobody.
        min_examples: the smallest size (at least `classes`).
        seed: who is large, and who owns what.

    Returns:
        The population.

    Example:
        >>> sorted(power_law(Source(np.zeros(110, np.int64), 1), clients=3).sizes.tolist())
        [20, 30, 60]

    References:
        The FedNNNN paper 2020, section 4, "unbalanced": sizes follow a power law, a small number of clients hold most.
    """
    check_clients("power_law", clients, source, by_class=classes is not None)
    if not 0 <= exponent < np.inf:
        raise AskewError(f"power_law: exponent={exponent} must be 0 or more (0: equal sizes)")
    totals = class_totals(source)
    if classes is not None:
        check_classes("power_law", classes, totals)
    least = max(min_examples, classes or 1)
    if clients * least > len(source.labels):
        raise AskewError(f"power_law: {clients} clients with at least {least} examples each need {clients * least}, "
                         f"there are {len(source.labels)}; ask for fewer clients or a smaller min_examples")
    draw = generator(seed, "power_law")
    rank_of = draw.permutation(clients)
    if classes is None:
        sizes = sizes_by_rank(len(source.labels), clients, exponent, least)[rank_of]
        owner = np.empty(len(source.labels), np.int64)
        owner[draw.permutation(len(owner))] = np.repeat(np.arange(clients), sizes)
        owned = Ownership.by_owner(owner, clients)
    else:
        owned = deal(_counts_in_classes(totals, clients, exponent, classes, least, draw)[rank_of], source.labels, draw)
    return population_of(owned, source, seed, "power_law", clients=clients, exponent=exponent, classes=classes,
                         min_examples=min_examples)


def sizes_by_rank(total: int, clients: int, exponent: float, least: int) -> np.ndarray:
    r"""Whole sizes $\max(\text{least}, t\, r^{-\text{exponent}})$, largest first, that sum to `total`.

    Example:
        >>> sizes_by_rank(110, 3, 1.0, 1).tolist()
        [60, 30, 20]
    """
    weights = np.arange(1, clients + 1, dtype=float) ** -exponent
    if not weights[-1] > 1e-100:  # beyond, sizes could not be told apart from 0
        raise AskewError(f"power_law: with exponent={exponent} the smallest of {clients} clients would have nothing; "
                         "ask for less, such as 1.0")
    low, high = 0.0, float(total) / weights[-1]
    for _ in range(200):  # bisection down to neighbouring floats
        scale = (low + high) / 2
        low, high = (scale, high) if np.maximum(least, scale * weights).sum() <= total else (low, scale)
    exact = np.maximum(least, low * weights)
    sizes = np.floor(exact + 1e-9).astype(np.int64)
    largest_fractions = np.argsort(sizes - exact, kind="stable")
    sizes[largest_fractions[: total - int(sizes.sum())]] += 1
    return -np.sort(-sizes)


def _counts_in_classes(totals: np.ndarray, clients: int, exponent: float, classes: int, least: int,
                       draw: np.random.Generator) -> np.ndarray:
    """Counts by rank: each client an even number from each of its classes, largest client first."""
    noise = draw.gumbel(size=(clients, len(totals)))
    total = float(totals.sum())
    while total >= clients * least:
        counts = _place(sizes_by_rank(int(total), clients, exponent, least), totals, classes, noise)
        if counts is not None:
            return counts
        total *= _SHRINK
    raise AskewError(f"power_law: {clients} clients of {classes} classes each do not fit into classes of "
                     f"{totals.min()} to {totals.max()} examples; ask for fewer clients, a smaller exponent or "
                     "min_examples")


def _place(sizes: np.ndarray, totals: np.ndarray, classes: int, noise: np.ndarray) -> np.ndarray | None:
    # Each choice depends on what the larger clients left, so this is a loop; its body is a few vector operations.
    counts = np.zeros((len(sizes), len(totals)), np.int64)
    stock = totals.astype(np.int64).copy()
    for rank, size in enumerate(sizes.tolist()):
        each, extra = divmod(size, classes)
        key = np.where(stock >= each + (extra > 0), noise[rank] + _LOYALTY * np.log(np.maximum(stock, 1)), -np.inf)
        chosen = np.argsort(-key)[:classes]
        if key[chosen[-1]] == -np.inf:
            return None
        counts[rank, chosen] = each
        counts[rank, chosen[:extra]] += 1
        stock -= counts[rank]
    return counts
