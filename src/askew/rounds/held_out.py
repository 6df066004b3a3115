"""Early stopping: the score on training examples that no client trains on, and when it has stopped gaining.

The test set plays no part: a run that stops at the score that it is judged by overstates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from askew.core.dataset import Examples
from askew.core.objective import Objective
from askew.core.tensors import ModelState
from askew.engine.evaluate import example_scores, means_of_parts
from askew.engine.peers import Peers
from askew.engine.task import Task

# (model, client) -> the model as the client has it; None: as all have it.
View = Callable[[int, int | None], ModelState]


@dataclass(frozen=True)
class Progress:
    """How a held-out score has gone.

    Args:
        best: the best score, or None before the first.
        at: the round in which it was reached.
        last: the last round that was judged.

    Example:
        >>> from askew.pieces.objective import cross_entropy
        >>> progress = Progress()
        >>> for round, score in enumerate([0.5, 0.7, 0.7, 0.6], 1):
        ...     progress = progress.with_score(round, score, cross_entropy())
        >>> progress, progress.without_gain
        (Progress(best=0.7, at=2, last=4), 2)
    """

    best: float | None = None
    at: int = 0
    last: int = 0

    @property
    def without_gain(self) -> int:
        """Rounds since the best one."""
        return self.last - self.at

    def with_score(self, round: int, score: float, objective: Objective) -> Progress:
        gained = self.best is None or (score > self.best if objective.higher_is_better else score < self.best)
        return Progress(score, round, round) if gained and not math.isnan(score) else Progress(self.best, self.at,
                                                                                               round)


def held_out_score(task: Task, view: View, choice: np.ndarray, by_devices: bool, peers: Peers | None = None) -> float:
    """The headline on held-out examples: on clients' validation examples with the model that each of them uses, where
    they have some; else on the server's.

    Args:
        choice: the model that each client uses.
        by_devices: whether clients count alike, as in the headline; else examples do.
        peers: processes that know different clients' tensors.
    """
    owned = task.population.validation
    if owned is None:
        numbers, users = np.unique(choice, return_counts=True)
        scores = [float(_scores(task, view(int(number), None), task.population.server).mean()) for number in numbers]
        return float(np.average(scores, weights=users))
    means = np.full(len(choice), np.nan)
    parts = ([(number, np.array([client])) for client, number in enumerate(choice)] if task.client.enters else
             [(number, np.flatnonzero(choice == number)) for number in np.unique(choice)])
    for number, who in parts:
        if task.client.enters and peers is not None and not peers.owns(int(who[0])):
            continue
        indices = np.concatenate([owned[client] for client in who.tolist()])
        if len(indices):
            model = view(int(number), int(who[0]) if task.client.enters else None)
            means[who] = means_of_parts(_scores(task, model, indices), owned.sizes[who])
    if task.client.enters and peers is not None:
        means = peers.of_owners(means)
    some = owned.sizes > 0
    return float(np.average(means[some], weights=None if by_devices else owned.sizes[some]))


def _scores(task: Task, model: ModelState, indices: np.ndarray) -> torch.Tensor:
    at = torch.from_numpy(indices).to(task.device)
    return example_scores(task, model, Examples(task.data.train.x[at], task.data.train.y[at])).cpu()
