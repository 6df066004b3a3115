"""evaluation.json: what the final models of a run are worth, in detail. One pass over the test examples makes it.

All measures are taken of the same examples as the headline. Where runs are judged on the whole test set, its examples
count alike, and of several models each as much as clients use it. Where they are judged by devices, each client counts
alike, with its own test examples or, where it has none, with the test set as its training classes weigh it; all
clients' examples together give one confusion matrix, one AUROC and so on, and the accuracy of all together is the mean
over clients of each one's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from askew.core import files
from askew.core.errors import AskewError
from askew.core.measures import class_means
from askew.core.pool import MANY_CLIENTS
from askew.core.skew import class_shares
from askew.core.tensors import ModelState
from askew.engine.evaluate import in_parts, outputs, tested
from askew.engine.task import Task
from askew.engine.threads import use_threads
from askew.rounds.record import Record
from askew.rounds.simulation import Simulation
from askew.runs.tallies import Tally, tally_of

EVALUATION = "evaluation.json"
FORMAT = 1
TASKS = {"classes": "classification", "numbers": "regression", "labels": "multilabel", "tokens": "tokens"}
MOST_COUNTS = 1_000_000  # numbers of examples by client and class; with more, nobody could read the file


def evaluate_run(simulation: Simulation, records: Sequence[Record]) -> dict[str, Any]:
    """What evaluation.json holds, of a simulation at the end of a round.

    Args:
        records: of its rounds: which models lived when.
    """
    with use_threads(simulation.threads.evaluation):
        return _Evaluation(simulation).as_mapping(records)


def write_evaluation(path: Path, evaluation: Mapping[str, Any]) -> None:
    """One line per key, so that a person can find their way in it."""
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in evaluation.items()]
    files.write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_evaluation(path: Path) -> dict[str, Any]:
    """Of a finished run.

    Args:
        path: the file.
    """
    if not path.exists():
        raise AskewError(f"{str(path.parent)!r} has no {path.name}: the run is not finished, or an earlier version of "
                         "askew wrote it, which made none")
    evaluation = files.read_json(path, "evaluation")
    if not isinstance(evaluation.get("format"), int):
        raise AskewError(f"{str(path)!r} is damaged: it does not say which format it has")
    if evaluation["format"] > FORMAT:
        raise AskewError(f"{str(path)!r} was written by a newer version of askew (format {evaluation['format']}, "
                         f"known: {FORMAT}); read it with that one")
    return evaluation


class _Evaluation:
    """All that a pass over the test examples collects."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation, self._task = simulation, simulation.task
        task = self._task
        self._targets = task.data.test.y.cpu().numpy()
        self._labels = task.data.labels_of(task.data.test)
        self._choice = np.asarray(task.pool.choice(simulation.pool_state))
        self._tally: Tally | None = None
        self._is_other = task.data.targets == "tokens"  # or the outputs turn out not to be what targets are
        self._sums: dict[str, float] = {}
        self._weight = 0.0
        self._model_scores: dict[int, float] = {}
        self._client_scores = np.zeros(task.num_clients)
        personal = simulation.by_devices and task.client.enters
        for number, clients, model, weights in self._personal() if personal else self._shared():
            each = self._add(model, weights)
            self._client_scores[clients] = self._scores(each)[clients]
            if not personal:
                self._model_scores[number] = float(each.mean())
        if task.client.enters and not personal:
            self._client_scores = simulation.device_scores()

    def _shared(self) -> Iterator[tuple[int, np.ndarray, ModelState, np.ndarray]]:
        """Number, clients, weights of each model that is used, and how much each test example counts for it."""
        for number in map(int, np.unique(self._choice)):
            who = np.flatnonzero(self._choice == number)
            counts = (_weights_for(self._task, self._labels, who) if self._simulation.by_devices
                      else np.full(len(self._labels), len(who) / len(self._labels)))
            yield number, who, self._simulation.view(number), counts

    def _personal(self) -> Iterator[tuple[int, np.ndarray, ModelState, np.ndarray]]:
        """Likewise, with the tensors that each client keeps for itself."""
        for client, number in enumerate(self._choice.tolist()):
            kept = self._simulation.memory.row(number, client)
            who = np.array([client])
            yield (number, who, self._task.client.enter(self._simulation.view(number), kept),
                   _weights_for(self._task, self._labels, who))

    def _add(self, model: ModelState, weights: np.ndarray) -> np.ndarray:
        """Count a model's outputs; the headline of each test example."""
        task, at = self._task, 0
        headline: list[np.ndarray] = []
        for output, target in zip(outputs(task, model, task.data.test.x), in_parts(task.data.test.y), strict=True):
            output, rows = output.float(), slice(at, at + len(target))
            values = {"loss": task.objective.losses(output, target), **task.objective.measures(output, target)}
            each = {name: value.cpu().double().numpy() for name, value in values.items()}
            headline.append(each[task.objective.headline])
            for name, value in each.items():
                self._sums[name] = self._sums.get(name, 0.0) + float(weights[rows] @ value)
            self._count(output.cpu().double().numpy(), rows, weights[rows])
            at += len(target)
        self._weight += float(weights.sum())
        return np.concatenate(headline)

    def _count(self, outputs: np.ndarray, rows: slice, weights: np.ndarray) -> None:
        data = self._task.data
        if self._is_other or outputs.shape[1:] != (data.num_outputs,):
            self._is_other = True
            return
        if self._tally is None:
            self._tally = tally_of(data.targets, data.num_outputs, self._targets.mean(axis=0))
        some = weights > 0
        self._tally.add(outputs[some], self._targets[rows][some], weights[some])

    def _scores(self, each: np.ndarray) -> np.ndarray:
        """All clients' scores with one model."""
        by_class = class_means(self._labels, each, self._task.data.num_classes)
        return self._task.population.accuracies(each, by_class)

    def as_mapping(self, records: Sequence[Record]) -> dict[str, Any]:
        simulation, task, data = self._simulation, self._task, self._task.data
        objective, tally, clients = task.objective, self._tally, task.num_clients
        measures: dict[str, float | None] = {objective.headline: self._headline()}
        measures |= {name: value / self._weight for name, value in self._sums.items() if name not in measures}
        by_class, confusion = (tally.by_class(), tally.confusion) if tally else (None, None)
        kind = TASKS[data.targets] if tally or data.targets == "tokens" else "other"
        is_classes = kind in ("classification", "multilabel")
        examples = (self._targets.sum(axis=0) if kind == "multilabel"
                    else np.bincount(self._labels, minlength=data.num_classes))
        return {
            "format": FORMAT, "round": simulation.round, "task": kind, "judged_on": simulation.judged_on,
            "headline": objective.headline, "higher_is_better": objective.higher_is_better,
            "measures": {name: _number(v) for name, v in {**measures, **(tally.measures() if tally else {})}.items()},
            "classes": list(data.classes) if is_classes else None,
            "by_class": None if by_class is None else {**{name: _numbers(v) for name, v in by_class.items()},
                                                       "examples": examples.astype(int).tolist()},
            "confusion": None if confusion is None else _counts(confusion * len(self._labels) / confusion.sum()),
            "clients": None if clients > MANY_CLIENTS else {
                "name": task.client_names,
                "group": None if task.population.groups is None else task.population.groups.tolist(),
                "examples": task.population.sizes.tolist(), "model": self._choice.tolist(),
                "score": _numbers(self._client_scores),
                "label_counts": (task.population.counts.tolist()
                                 if data.num_classes > 1 and task.population.counts.size <= MOST_COUNTS else None)},
            "models": self._models(records),
            "skew": {"mean_emd": task.population.mean_emd} if data.num_classes > 1 else None,
        }

    def _headline(self) -> float:
        """As the round's record has it, to the last bit."""
        if self._simulation.by_devices:
            return float(tested(self._client_scores).mean())
        shares = {number: float(np.mean(self._choice == number)) for number in self._model_scores}
        return sum(shares[number] * score for number, score in self._model_scores.items())

    def _models(self, records: Sequence[Record]) -> dict[str, Any]:
        """All models that ever lived, as far as the rounds say so."""
        lives: dict[int, dict[str, Any]] = {0: {"parent": None, "born": 0, "died": None}}
        for record in records:
            for parent, child in record.get("cloned", ()):
                lives[child] = {"parent": parent, "born": record["round"], "died": None}
            for number in record.get("deleted", ()):
                lives[number]["died"] = record["round"]
        for number in self._simulation.models:  # of a run that an earlier version began
            lives.setdefault(number, {"parent": None, "born": None, "died": None})
        users = np.bincount(self._choice, minlength=max(lives) + 1)
        return {str(number): {"clients": int(users[number]), "score": self._model_scores.get(number), **life}
                for number, life in sorted(lives.items())}


def _weights_for(task: Task, labels: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """How much each test example counts for some clients together, each of whom counts 1."""
    population, result = task.population, np.zeros(len(labels))
    if population.test is None:
        examples = np.bincount(labels, minlength=population.num_classes)
        return (class_shares(population.counts[clients] * (examples > 0)).sum(axis=0) / np.maximum(examples, 1))[labels]
    for client in clients:
        indices = population.test[client]
        result[indices] += 1 / max(len(indices), 1)
    return result


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(float(value)) for value in values]


def _counts(values: np.ndarray) -> list[Any]:
    """Whole numbers as such; those of weighted examples are none."""
    near = values.round()
    return near.astype(int).tolist() if np.allclose(values, near, atol=1e-6) else values.round(6).tolist()
