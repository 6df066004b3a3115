"""How good is a model: accuracy, loss, per class, per device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.core.dataset import Examples
from askew.core.population import Population
from askew.core.preprocess import Preprocess
from askew.core.probe import ModelState
from askew.engine.functional import call, places_of
from askew.engine.local import cpu_order

CHUNK = 2_000  # examples a forward pass: large enough to keep a device busy, small enough for any memory


@dataclass(frozen=True)
class Verdict:
    """A model's results on a set of examples.

    Args:
        correct: whether each example was classified right, in order.
        class_accuracy: accuracy on the examples of each class (0 for a class without examples).
    """

    accuracy: float
    loss: float
    correct: np.ndarray
    class_accuracy: np.ndarray


def scores(module: nn.Module, model: ModelState, x: Tensor, prepare: Preprocess) -> Iterator[Tensor]:
    """Class scores of stored inputs, chunk by chunk, with the network in evaluation mode."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            places = places_of(module)
            for part in x.split(CHUNK):
                yield call(module, {**model.params, **model.buffers}, (cpu_order(prepare.apply(part, None)),), places)
    finally:
        module.train(was_training)


def predict_classes(module: nn.Module, model: ModelState, x: Tensor, prepare: Preprocess) -> Tensor:
    return torch.cat([s.argmax(dim=1) for s in scores(module, model, x, prepare)])


def evaluate(module: nn.Module, model: ModelState, examples: Examples, prepare: Preprocess, num_classes: int) -> Verdict:
    """Accuracy and mean cross-entropy on a set of examples."""
    all_scores = torch.cat([s.float() for s in scores(module, model, examples.x, prepare)])
    loss = F.cross_entropy(all_scores, examples.y)
    correct = (all_scores.argmax(dim=1) == examples.y).cpu().numpy()
    y = examples.y.cpu().numpy()
    per_class = np.bincount(y, weights=correct, minlength=num_classes) / np.maximum(np.bincount(y, minlength=num_classes), 1)
    return Verdict(float(correct.mean()), float(loss), correct, per_class)


def device_accuracies(verdicts: dict[int, Verdict], choice: np.ndarray, population: Population) -> np.ndarray:
    """Each client's accuracy with the model it chose."""
    result = np.zeros(population.num_clients)
    for number, verdict in verdicts.items():
        users = choice == number
        result[users] = population.accuracies(verdict.correct, verdict.class_accuracy)[users]
    return result
