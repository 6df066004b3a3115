"""How good the models are after a round, as the recipe wants them judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from askew.core.pool import MANY_CLIENTS
from askew.core.tensors import ModelState, Tree
from askew.engine.evaluate import Scores, device_record, device_scores, evaluate, record_of, tested
from askew.engine.peers import Peers
from askew.engine.task import Task
from askew.engine.threads import use_threads
from askew.rounds.diverged import check_loss
from askew.rounds.held_out import held_out_score
from askew.rounds.record import Record

RowOf = Callable[[int, int], Tree]


def by_devices(task: Task) -> bool:
    """Whether a run is judged by each client's own test data, not by the whole test set."""
    return task.recipe.judge == "devices" or (
        task.recipe.judge == "auto" and (task.population.test is not None or task.personal))


def judged_on(task: Task) -> str:
    """On what the headline is taken, in words."""
    if not by_devices(task):
        return f"the whole test set ({len(task.data.test):,} examples)"
    if task.population.test is not None:
        judged = task.population.num_tested
        others = task.num_clients - judged
        return f"mean over {judged:,} clients' own test data" + (f" ({others:,} have none)" if others else "")
    return f"mean over {task.num_clients:,} clients, each on the test set as its own classes weigh it"


def held_out_column(task: Task) -> str:
    return f"held_out_{task.objective.headline}"


@dataclass(frozen=True)
class Standing:
    """What is judged.

    Args:
        round: after which, counted from 1.
        shared: number -> a model as it is evaluated.
        choice: the model that each client uses.
        row: (model, client) -> what the client remembers of it.
        peers: processes that judge their own clients each; else all are judged here.
    """

    task: Task
    round: int
    shared: Callable[[int], ModelState]
    choice: np.ndarray
    row: RowOf
    peers: Peers | None = None

    def record(self, threads: int) -> Record:
        """The objective's measures and the loss."""
        task = self.task
        with use_threads(threads):
            scores = self._scores()
        result: Record = record_of(scores, self.choice)
        check_loss(task, self.round, result["loss"])
        devices = by_devices(task)
        # Else every device has the test set's score.
        told_apart = task.population.test is not None or task.data.num_classes > 1 or task.personal
        if devices or (told_apart and task.num_clients <= MANY_CLIENTS):
            each = (self._personal_scores() if task.client.enters
                    else device_scores(scores, self.choice, task.population))
            result |= device_record(each, task.population.groups, task.objective)
            if devices:
                result[task.objective.headline] = float(tested(each).mean())
        if task.recipe.stop_after_no_gain:
            with use_threads(threads):
                result[held_out_column(task)] = held_out_score(task, self._of_client, self.choice, devices, self.peers)
        return result if self.peers is None else self.peers.first(result)

    def device_scores(self) -> np.ndarray:
        """Each client's score with the model that it uses."""
        if self.task.client.enters:
            return self._personal_scores()
        return device_scores(self._scores(), self.choice, self.task.population)

    def _scores(self) -> dict[int, Scores]:
        # Models that clients use; to sort a million choices would take longer than a round.
        return {number: evaluate(self.task, self.shared(number))
                for number in np.flatnonzero(np.bincount(self.choice)).tolist()}

    def _of_client(self, number: int, client: int | None) -> ModelState:
        """A model as all have it, or with the tensors that a client keeps for itself."""
        shared = self.shared(number)
        return shared if client is None else self.task.client.enter(shared, self.row(number, client))

    def _personal_scores(self) -> np.ndarray:
        task, result = self.task, np.zeros(len(self.choice))
        for client, number in enumerate(self.choice.tolist()):
            if self.peers is None or self.peers.owns(client):
                scores = {0: evaluate(task, self._of_client(number, client))}
                result[client] = device_scores(scores, np.zeros(len(self.choice), np.int64), task.population)[client]
        return result if self.peers is None else self.peers.of_owners(result)
