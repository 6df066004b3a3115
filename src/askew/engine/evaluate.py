"""How good is a model: its loss and measures, per class, per device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.dataset import Examples
from askew.core.measures import class_means
from askew.core.objective import Objective
from askew.core.population import Population
from askew.core.tensors import ModelState
from askew.engine.functional import call, places_of
from askew.engine.local import cpu_order
from askew.engine.task import Task
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


def in_parts(x: Tensor, device: torch.device | None = None) -> tuple[Tensor, ...]:
    """Inputs or targets, as many at once as suit the device that judges them, by default theirs."""
    return x.split(CHUNK.get((device or x.device).type, CHUNK["cuda"]))


def outputs(task: Task, model: ModelState, x: Tensor) -> Iterator[Tensor]:
    """The network's outputs for stored inputs, chunk by chunk, in evaluation mode."""
    module = task.judged
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            places, tensors = places_of(module), {**model.params, **model.buffers}
            for part in in_parts(x):
                yield call(module, tensors, (cpu_order(task.prepare.apply(part, None)),), places)
    finally:
        module.train(was_training)


def predict(task: Task, model: ModelState, x: Tensor) -> Tensor:
    """The class of each stored input."""
    return torch.cat([output.argmax(dim=1) for output in outputs(task, model, x)])


def example_scores(task: Task, model: ModelState, examples: Examples) -> Tensor:
    """The objective's headline of each example."""
    parts = zip(outputs(task, model, examples.x), in_parts(examples.y), strict=True)
    return torch.cat([task.objective.scores(output.float(), target).float() for output, target in parts])


def score(task: Task, model: ModelState) -> float:
    """The objective's headline on the test set."""
    return evaluate(task, model).score


def evaluate(task: Task, model: ModelState) -> Scores:
    """Loss and measures on the test set."""
    objective, examples = task.objective, task.data.test
    everything: list[Tensor] = []  # outputs, kept only where the objective takes the mean of all of them at once
    parts: dict[str, list[Tensor]] = {}
    for output, target in zip(outputs(task, model, examples.x), in_parts(examples.y), strict=True):
        output = output.float()
        if objective.mean is not None:
            everything.append(output)
        if objective.mean is None or objective.headline == "loss":
            parts.setdefault("loss", []).append(objective.losses(output, target))
        for name, values in objective.measures(output, target).items():
            parts.setdefault(name, []).append(values)
    each = {name: torch.cat(values).cpu().double().numpy() for name, values in parts.items()}
    loss = float(each["loss"].mean() if objective.mean is None
                 else objective.mean(torch.cat(everything), examples.y))
    headline = each[objective.headline]
    per_class = class_means(task.data.labels_of(examples), headline, task.data.num_classes)
    measures = {name: float(values.mean()) for name, values in each.items() if name != "loss"}
    return Scores({"loss": loss, **measures}[objective.headline], loss, headline, per_class, measures)


def device_scores(model_scores: Mapping[int, Scores], choice: np.ndarray, population: Population) -> np.ndarray:
    """Each client's score with the model it chose; NaN of one without test examples, see `Population.accuracies`."""
    result = np.zeros(population.num_clients)
    for number, scores in model_scores.items():
        users = choice == number
        result[users] = population.accuracies(scores.each, scores.class_scores)[users]
    return result


def means_of_parts(values: Tensor, sizes: np.ndarray) -> np.ndarray:
    """The mean of each of the parts that lie end to end; NaN of an empty one.

    Parts of one size together, each the sum of its own row: the same bits as one by one, and no loop over parts.
    """
    ends = np.cumsum(sizes)
    result = np.empty(len(sizes))
    for size in np.unique(sizes):
        who = sizes == size
        rows = (ends[who] - size)[:, None] + np.arange(size)
        result[who] = values[torch.from_numpy(rows)].mean(dim=1).numpy()
    return result


def record_of(model_scores: Mapping[int, Scores], choice: np.ndarray) -> dict[str, Any]:
    """Measures and loss of all models, each counted as often as clients use it."""
    share = {number: float(np.mean(choice == number)) for number in model_scores}
    names = next(iter(model_scores.values())).measures
    means = {name: sum(share[n] * v.measures[name] for n, v in model_scores.items()) for name in names}
    return {**means, "loss": sum(share[n] * v.loss for n, v in model_scores.items())}


def tested(scores: np.ndarray) -> np.ndarray:
    """The scores of the clients that could be judged: one without test examples has none, which is not 0."""
    return scores[~np.isnan(scores)]


def device_record(scores: np.ndarray, groups: np.ndarray | None, objective: Objective) -> dict[str, Any]:
    """What is recorded of the clients' scores: mean, spread, the worst, and the mean of each group of clients."""
    judged = tested(scores)
    name, worst = objective.headline, "min" if objective.higher_is_better else "max"
    record: dict[str, Any] = {f"device_{name}_mean": float(judged.mean()), f"device_{name}_std": float(judged.std()),
                              f"device_{name}_{worst}": float(judged.min() if objective.higher_is_better
                                                              else judged.max())}
    if groups is not None:
        record[f"group_{name}"] = [float(tested(scores[groups == g]).mean()) for g in np.unique(groups)]
    return record
