"""By which measure methods are compared: accuracy on the whole test set, or on each device's own kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from askew.core.dataset import Source
from askew.core.population import Population
from askew.core.probe import Probe, Round, Setting
from askew.core.registry import piece
from askew.partition import draw
from askew.engine.evaluate import Verdict, device_scores
from askew.rounds.simulation import Record

Judge = Literal["global", "devices"]
_ON_FEDERATION = "federation_device_accuracy_mean"


def measured(record: Record, judge: Judge) -> float:
    """The accuracy of an evaluated round by one measure; the run must have been judged "global".

    A method with `accuracy_on_devices_of` among its probes is judged on those devices instead of its own.
    """
    if judge == "global":
        return float(record["accuracy"])
    return float(record[_ON_FEDERATION if _ON_FEDERATION in record else "device_accuracy_mean"])


def majority_accuracy(population: Population, test_labels: np.ndarray) -> float:
    """The device accuracy of answering, on each device, always with the most frequent class of its training examples.

    The floor of the measure "devices": with one class a client it is 1, whatever a model has learnt.
    """
    answers = population.counts.argmax(axis=1)
    if population.test is None:
        return float((population.counts.max(axis=1) / population.sizes).mean())
    return float(np.mean([(test_labels[population.test[k]] == answer).mean() for k, answer in enumerate(answers)]))


@piece("probe")
def accuracy_on_devices_of(population: str) -> Probe:
    """Mean accuracy over the devices of a federation that may be another one than that which trains.

    The centralised model's own federation is one client that has everything; where data are shared, a client's
    training examples are not only its own. With this probe their models are judged on the same devices as the others.

    Args:
        population: the scheme, as a recipe writes it; drawn from all training data with the run's own seed.
    """
    drawn: list[Population] = []  # a function of the setting, kept so that it is not drawn again in each round

    def read(setting: Setting, round: Round, state: Any, gathered: Any) -> tuple[Mapping[str, Any], Any]:
        if not drawn:
            drawn.append(draw(population, Source.of(setting.data), setting.population.seed))
        judged = round.evaluated or round.after
        labels = setting.data.test.y.cpu().numpy()
        right = (setting.predict(judged, setting.data.test.x) == setting.data.test.y).cpu().numpy()
        totals = np.bincount(labels, minlength=setting.data.num_classes)
        per_class = np.bincount(labels, weights=right, minlength=len(totals)) / np.maximum(totals, 1)
        verdict = Verdict(float(right.mean()), 0.0, right, per_class)
        choice = np.zeros(drawn[0].num_clients, np.int64)
        return {_ON_FEDERATION: float(device_scores({0: verdict}, choice, drawn[0]).mean())}, state

    return Probe(read)
