"""By which measure methods are compared: accuracy on the whole test set, or on each device's own kind of data."""

from __future__ import annotations

from typing import Literal

import numpy as np

from askew.core.population import Population
from askew.core.skew import class_shares
from askew.pieces.probe.accuracy_on_devices_of import NUMBER as ON_FEDERATION
from askew.rounds.record import Record

Judge = Literal["global", "devices"]


def measured(record: Record, judge: Judge) -> float:
    """The accuracy of an evaluated round by one measure; the run must have been judged "global".

    A method with a probe of the common federation's devices is judged on those instead of its own.
    """
    if judge == "global":
        return float(record["accuracy"])
    return float(record[ON_FEDERATION if ON_FEDERATION in record else "device_accuracy_mean"])


def majority_accuracy(population: Population, test_labels: np.ndarray) -> float:
    """The device accuracy of answering, on each device, always with the most frequent class of its training examples.

    The floor of the measure "devices": with one class per client it is 1, whatever a model has learnt.
    """
    answers = population.counts.argmax(axis=1)
    if population.test is None:
        shares = class_shares(population.counts * (np.bincount(test_labels, minlength=population.num_classes) > 0))
        return float(shares[np.arange(len(answers)), answers][shares.any(axis=1)].mean())
    return float(np.mean([(test_labels[population.test[k]] == answer).mean() for k, answer in enumerate(answers)
                          if len(population.test[k])]))
