"""The whole federation in one call: hold out, divide the rest, share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core import registry
from askew.core.dataset import Source
from askew.core.population import Population
from askew.core.registry import Spec
from askew.partition import server_share
from askew.partition.deal import class_totals


def draw(scheme: str | Spec, source: Source, seed: int = 0, *, hold_out: tuple[float, int | None] | None = None,
         share: float | None = None) -> Population:
    """The population that a scheme gives of what the server does not keep.

    Args:
        scheme: as a recipe writes it, e.g. `dirichlet(clients=100, alpha=0.1)`.
        source: labels (and owners) of the whole training set.
        seed: of all draws.
        hold_out: fraction of the training set held out, balanced over the classes, and how many of these examples the
            server gets (None: all of them); see `server_share.hold_out`.
        share: portion of the server's examples that each client gets besides its own; see `server_share.share`.

    Returns:
        The population, with indices into the whole training set and `class_totals` of all of it.

    Example:
        >>> population = draw("iid(clients=2)", Source(np.arange(100) % 10, 10), hold_out=(0.2, None), share=0.5)
        >>> population.sizes.tolist(), len(population.server)
        ([50, 50], 20)
    """
    spec = registry.parse("partition", scheme)
    if hold_out is None:
        population: Population = registry.build("partition", spec, source=source, seed=seed)
        return population if share is None else server_share.share(population, source.labels, share, seed)
    fraction, size = hold_out
    server, rest = server_share.hold_out(source, fraction, size, seed)
    population = registry.build("partition", spec, source=source.take(rest), seed=seed)
    assert population.class_totals is not None
    out_of_reach = class_totals(source) - np.bincount(source.labels[rest], minlength=source.num_classes)
    held = Spec("hold_out", {"fraction": fraction} if size is None else {"fraction": fraction, "size": size})
    text = f"{population.scheme} + {held}"
    population = replace(population.at(rest), server=server, scheme=text,
                         class_totals=population.class_totals + out_of_reach)
    if share is not None:
        shared = server_share.share(population, source.labels, share, seed)
        population = replace(shared, scheme=f"{text} + {Spec('share', {'alpha': share})}")
    return population
