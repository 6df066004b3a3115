"""The whole federation in one call: hold out, divide the rest, change what was drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from askew.core import registry
from askew.core.arguments import checked
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.population_spec import Combinator, PopulationSpec
from askew.core.registry import Spec
from askew.partition.deal import class_totals


@checked
def draw(population: str | Spec | PopulationSpec, source: Source, seed: int = 0) -> Population:
    """The federation that a scheme and its combinators give.

    Args:
        population: as a recipe writes it, e.g. `dirichlet(clients=100, alpha=0.1) + hold_out(0.05)`.
        source: labels (and owners) of the whole training set.
        seed: of all draws.

    Returns:
        The population, with indices into the whole training set and `class_totals` of all of it.

    Example:
        >>> population = draw("iid(clients=2) + hold_out(0.2) + share(0.5)", Source(np.arange(100) % 10, 10))
        >>> population.sizes.tolist(), len(population.server)
        ([50, 50], 20)
    """
    spec = PopulationSpec.of(population)
    splits = [split for _, combinator in _made(spec) if (split := combinator.split)]
    if len(splits) > 1:
        raise AskewError(f"population: two combinators of {str(spec)!r} take examples before the scheme does; "
                         "keep one of them")
    server, rest = splits[0](source, seed) if splits else (np.zeros(0, np.int64), np.arange(len(source.labels)))
    part: Population = registry.build("partition", spec.scheme, source=source.take(rest) if splits else source,
                                      seed=seed)
    if splits:
        assert part.class_totals is not None
        out_of_reach = class_totals(source) - np.bincount(source.labels[rest], minlength=source.num_classes)
        part = replace(part.at(rest), server=server, class_totals=part.class_totals + out_of_reach)
    return _changed(part, spec, source, seed)


@checked
def combine(population: Population, spec: PopulationSpec, source: Source, seed: int = 0) -> Population:
    """A federation of your own, changed by a recipe's combinators, but for those that it was drawn with.

    Examples at the server it must bring itself: a recipe that holds some out is refused where it has none.
    """
    splits = [combinator for combinator, made in _made(spec) if made.split]
    if splits and not len(population.server):
        raise AskewError(f"population: {splits[0]} cannot be taken from a federation of your own; "
                         "give it examples at the server yourself")
    done = population.scheme.split(" + ")
    left = tuple(combinator for combinator in spec.combinators if combinator not in splits
                 and str(combinator) not in done)
    return _changed(population, replace(spec, combinators=left), source, seed)


def _changed(population: Population, spec: PopulationSpec, source: Source, seed: int) -> Population:
    for text, combinator in _made(spec):
        if combinator.change:
            population = combinator.change(population, source, seed)
        population = replace(population, scheme=f"{population.scheme} + {text}")
    return population


def _made(spec: PopulationSpec) -> list[tuple[Spec, Combinator]]:
    return [(combinator, registry.build("combinator", combinator)) for combinator in spec.combinators]
