"""A model judged on the devices of another federation than the one that trains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from askew.core import registry
from askew.core.dataset import Source
from askew.core.measures import class_means
from askew.core.population import Population
from askew.core.probe import Probe, ProbeContext, Round
from askew.core.registry import piece

NUMBER = "federation_device_accuracy_mean"  # its name in a record


@piece("probe")
def accuracy_on_devices_of(population: str) -> Probe:
    """Mean accuracy over the devices of a federation that may be another one than that which trains.

    The centralised model's own federation is one client that has everything; where data are shared, a client's
    training examples are not only its own. With this probe their models are judged on the same devices as the others,
    each on its own test examples, or on the test set with its classes weighted as the device has them.

    Args:
        population: the scheme, as a recipe writes it; drawn from all training data with the run's own seed.

    Returns:
        A probe of `federation_device_accuracy_mean`, of the model that is evaluated.

    Example:
        Two devices with one class each, of which the model gets 90% and 50% right: 0.7.
    """
    drawn: list[Population] = []  # a function of the ctx, kept so that it is not drawn again in each round

    def read(ctx: ProbeContext, round: Round, state: Any, gathered: Any) -> tuple[Mapping[str, Any], Any]:
        if not drawn:
            drawn.append(registry.build("partition", population, source=Source.of(ctx.data),
                                        seed=ctx.population.seed))
        labels = ctx.data.test.y.cpu().numpy()
        predicted = ctx.predict(round.evaluated or round.after, ctx.data.test.x)
        right = (predicted == ctx.data.test.y).cpu().numpy()
        per_class = class_means(labels, right, ctx.data.num_classes)
        return {NUMBER: float(np.nanmean(drawn[0].accuracies(right, per_class)))}, state

    return Probe(read)
