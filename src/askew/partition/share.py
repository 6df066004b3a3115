"""Examples of the server that every client gets besides its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from askew.core.bounds import Bounds
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.population_spec import Combinator
from askew.core.registry import piece
from askew.partition.deal import generator

_CELLS = 4_000_000  # random keys in memory at once while clients draw their portions


@piece("combinator")
def share(fraction: Annotated[float, Bounds(0, 1, open_low=True)]) -> Combinator:
    """Each client gets, besides its own examples, a random portion of the server's, drawn for itself.

    Examples at the server are then owned by several clients, and by the server still.

    Args:
        fraction: of the server's examples (zhao2018's alpha).

    Example:
        100 examples, 20 of them at the server: two clients have 40 each, and 10 of the 20 besides.

        >>> source = Source(np.arange(100) % 10, 10)
        >>> askew.partition.draw("iid(clients=2) + hold_out(0.2) + share(0.5)", source).sizes.tolist()
        [50, 50]

    References:
        Zhao et al. 2018, section 4.2.
    """
    return Combinator(change=lambda population, source, seed: _shared(population, source, fraction, seed))


def _shared(population: Population, source: Source, fraction: float, seed: int) -> Population:
    """The population with longer `train` and new `counts`."""
    if len(population.server) == 0:
        raise AskewError("share: the server has no examples to share; write + hold_out(0.2) before it, say")
    held = len(population.server)
    portion = max(1, round(fraction * held))
    train = population.train
    owner = np.repeat(np.arange(len(train)), train.sizes)
    shared = population.server[_portions(len(train), held, portion, generator(seed, "share"))]
    sizes = train.sizes + portion
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices = np.empty(offsets[-1], np.int64)
    indices[np.arange(len(train.indices)) + portion * owner] = train.indices  # own examples first, then the shared ones
    indices[(offsets[1:] - portion)[:, None] + np.arange(portion)] = shared
    merged = Ownership(indices, offsets)
    return replace(population, train=merged, counts=merged.counts(source.labels, population.num_classes))


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
