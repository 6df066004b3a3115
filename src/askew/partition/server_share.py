"""Examples at the server: held out of the training set, and shared with the clients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Ownership, Population
from askew.partition.apportion import even_sizes
from askew.partition.deal import by_class, class_totals, generator

_CELLS = 4_000_000  # random keys in memory at once while clients draw their portions


def hold_out(source: Source, fraction: float, size: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Examples for the server, equally many of each class, and the rest for the clients.

    Args:
        source: labels of all training examples.
        fraction: of the training examples, held out of the clients' reach.
        size: how many of those held out the server actually gets; None gives it all. The others are set aside, so
            that the clients' part is the same for each size (Zhao's D of 40,000 beside a G of 1,000 to 10,000).
        seed: which examples.

    Returns:
        Indices of the server's examples and of the clients' examples, ascending.

    Example:
        >>> server, rest = hold_out(Source(np.arange(100) % 10, 10), 0.2)
        >>> len(server), len(rest)
        (20, 80)

    References:
        Ozdayi et al. 2020, "server-side training" (5%, balanced); Zhao et al. 2018, section 4.2 (H is 20%, G from it).
    """
    examples = len(source.labels)
    number = round(fraction * examples) if 0 < fraction < 1 else 0
    if not 0 < number < examples:
        raise AskewError(f"hold_out: a fraction of {fraction} leaves the server or the clients without any of the "
                         f"{examples} examples; ask for a number between 0 and 1, such as 0.05")
    if size is not None and not 1 <= size <= number:
        raise AskewError(f"hold_out: size={size} is outside 1..{number}, the examples held out by a fraction of "
                         f"{fraction}")
    draw = generator(seed, "hold_out")
    totals = class_totals(source)
    present = np.flatnonzero(totals)
    wanted = np.zeros(len(totals), np.int64)
    wanted[draw.permutation(present)] = even_sizes(number, len(present))
    if (wanted > totals).any():
        short = int((wanted - totals).argmax())
        raise AskewError(f"hold_out: a balanced {fraction} of the data needs {wanted[short]} examples of class "
                         f"{short}, there are {totals[short]}; ask for at most "
                         f"{len(present) * totals[present].min() / examples:.3g}")
    order = by_class(source.labels, draw)
    rank = np.arange(examples) - np.repeat(np.cumsum(totals) - totals, totals)
    held = np.zeros(examples, bool)
    held[order] = rank < wanted[source.labels[order]]
    used = held
    if size is not None:
        # The first of each class in the same random order, so that a larger G contains a smaller one.
        part = np.zeros(len(totals), np.int64)
        part[np.argsort(-wanted, kind="stable")[: len(present)]] = even_sizes(size, len(present))
        used = np.zeros(examples, bool)
        used[order] = rank < part[source.labels[order]]
    return np.flatnonzero(used), np.flatnonzero(~held)


def share(population: Population, source_labels: np.ndarray, alpha: float, seed: int = 0) -> Population:
    """Each client gets, besides its own examples, a random portion of the server's, drawn for itself.

    Examples at the server are then owned by several clients, and by the server still.

    Args:
        population: with examples at the server.
        source_labels: labels of the whole training set, which the population's indices point into.
        alpha: the portion of the server's examples that each client gets, above 0 to 1.
        seed: which portions.

    Returns:
        The population with longer `train` and new `counts`.

    References:
        Zhao et al. 2018, section 4.2.
    """
    if not 0 < alpha <= 1:
        raise AskewError(f"share: alpha={alpha} must be above 0 and at most 1, the portion of the server's examples")
    if len(population.server) == 0:
        raise AskewError("share: the server has no examples to share; hold some out first, e.g. hold_out 0.2")
    held = len(population.server)
    portion = max(1, round(alpha * held))
    train = population.train
    owner = np.repeat(np.arange(len(train)), train.sizes)
    shared = population.server[_portions(len(train), held, portion, generator(seed, "share"))]
    sizes = train.sizes + portion
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices = np.empty(offsets[-1], np.int64)
    indices[np.arange(len(train.indices)) + portion * owner] = train.indices  # own examples first, then the shared ones
    indices[(offsets[1:] - portion)[:, None] + np.arange(portion)] = shared
    merged = Ownership(indices, offsets)
    return replace(population, train=merged, counts=merged.counts(source_labels, population.num_classes))


def _portions(clients: int, held: int, portion: int, draw: np.random.Generator) -> np.ndarray:
    """For each client, `portion` different numbers below `held`, ascending."""
    if portion == held:
        return np.tile(np.arange(held), (clients, 1))
    rows = max(1, _CELLS // held)
    parts = []
    for start in range(0, clients, rows):
        keys = draw.random((min(rows, clients - start), held))
        parts.append(np.sort(np.argpartition(keys, portion, axis=1)[:, :portion], axis=1))
    return np.concatenate(parts)
