"""How good is a model: its loss and measures, per class, per device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askew.core.dataset import Examples
from askew.core.measures import class_means
from askew.core.objective import Objective
from askew.core.population import Population
from askew.core.preprocess import Preprocess
from askew.core.tensors import ModelState
from askew.engine.functional import call, places_of
from askew.engine.local import cpu_order
from askew.engine.tuning import CHUNK


@dataclass(frozen=True)
class Scores:
    """A model's results on a set of examples.

    Args:
        score: the objective's headline: the accuracy of a classifier.
        loss: the mean loss.
        each: the headline of each example, in order.
        class_scores: the mean headline of each class's examples (NaN for a class without any).
        measures: the means of all measures of the objective, by name.
    """

    score: float
    loss: float
    each: np.ndarray
    class_scores: np.ndarray
    measures: Mapping[str, float] = field(default_factory=dict)


def outputs(module: nn.Module, model: ModelState, x: Tensor, prepare: Preprocess) -> Iterator[Tensor]:
    """The network's outputs for stored inputs, chunk by chunk, in evaluation mode."""
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
    return torch.cat([output.argmax(dim=1) for output in outputs(module, model, x, prepare)])


def example_scores(module: nn.Module, model: ModelState, examples: Examples, prepare: Preprocess,
                   objective: Objective) -> Tensor:
    """The objective's headline of each example."""
    parts = zip(outputs(module, model, examples.x, prepare), examples.y.split(CHUNK), strict=True)
    return torch.cat([objective.scores(output.float(), target).float() for output, target in parts])


def evaluate(module: nn.Module, model: ModelState, examples: Examples, prepare: Preprocess, objective: Objective,
             labels: np.ndarray, num_classes: int) -> Scores:
    """Loss and measures on a set of examples.

    Args:
        labels: the class of each example; all 0 where the targets are not classes.
    """
    whole: list[Tensor] = []  # outputs, kept only where the objective takes the mean of all of them at once
    parts: dict[str, list[Tensor]] = {}
    for output, target in zip(outputs(module, model, examples.x, prepare), examples.y.split(CHUNK), strict=True):
        output = output.float()
        if objective.mean is not None:
            whole.append(output)
        if objective.mean is None or objective.headline == "loss":
            parts.setdefault("loss", []).append(objective.losses(output, target))
        for name, values in objective.measures(output, target).items():
            parts.setdefault(name, []).append(values)
    each = {name: torch.cat(values).cpu().double().numpy() for name, values in parts.items()}
    loss = float(each["loss"].mean()) if objective.mean is None else float(objective.mean(torch.cat(whole), examples.y))
    score = each[objective.headline]
    per_class = class_means(labels, score, num_classes)
    measures = {name: float(values.mean()) for name, values in each.items() if name != "loss"}
    return Scores({"loss": loss, **measures}[objective.headline], loss, score, per_class, measures)


def device_scores(verdicts: Mapping[int, Scores], choice: np.ndarray, population: Population) -> np.ndarray:
    """Each client's score with the model it chose; NaN of one without test examples, see `Population.accuracies`."""
    result = np.zeros(population.num_clients)
    for number, verdict in verdicts.items():
        users = choice == number
        result[users] = population.accuracies(verdict.each, verdict.class_scores)[users]
    return result


def means_of_parts(values: Tensor, sizes: np.ndarray) -> np.ndarray:
    """The mean of each of the parts that lie one behind the other; NaN of an empty one.

    Parts of one size together, each the sum of its own row: the same bits as one by one, and no loop over parts.
    """
    ends = np.cumsum(sizes)
    result = np.empty(len(sizes))
    for size in np.unique(sizes):
        who = sizes == size
        rows = (ends[who] - size)[:, None] + np.arange(size)
        result[who] = values[torch.from_numpy(rows)].mean(dim=1).numpy()
    return result


def record_of(verdicts: Mapping[int, Scores], choice: np.ndarray) -> dict[str, Any]:
    """Measures and loss of all models, each counted as often as clients use it."""
    share = {number: float(np.mean(choice == number)) for number in verdicts}
    names = next(iter(verdicts.values())).measures
    means = {name: sum(share[n] * v.measures[name] for n, v in verdicts.items()) for name in names}
    return {**means, "loss": sum(share[n] * v.loss for n, v in verdicts.items())}


def tested(scores: np.ndarray) -> np.ndarray:
    """The scores of the clients that could be judged: one without test examples has none, which is not 0."""
    return scores[~np.isnan(scores)]


def device_record(scores: np.ndarray, groups: np.ndarray | None, objective: Objective) -> dict[str, Any]:
    """What is recorded of the clients' scores: mean, spread, the worst, and the mean of each group of clients."""
    there = tested(scores)
    name, worst = objective.headline, "min" if objective.higher_is_better else "max"
    record: dict[str, Any] = {f"device_{name}_mean": float(there.mean()), f"device_{name}_std": float(there.std()),
                              f"device_{name}_{worst}": float(there.min() if objective.higher_is_better
                                                              else there.max())}
    if groups is not None:
        record[f"group_{name}"] = [float(tested(scores[groups == g]).mean()) for g in np.unique(groups)]
    return record
