"""A run, round by round: launched on the device, completed, measured, evaluated, saved and restored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.utils import get_total_norm

from askew.core import rng
from askew.core.client_memory import ClientMemory
from askew.core.cohort import Cohort
from askew.core.compat import tree_map
from askew.core.dataset import Examples
from askew.core.errors import AskewError
from askew.core.interrupt import shielded
from askew.core.pool import Changes
from askew.core.probe import ProbeContext, Round
from askew.core.tensors import ModelState, Tree, num_bytes
from askew.engine.evaluate import example_scores, means_of_parts, predict
from askew.engine.local import train_pooled
from askew.engine.peers import Peers
from askew.engine.protocol import Engine
from askew.engine.schedule import ToHost
from askew.engine.start import initial_model
from askew.engine.task import Task
from askew.engine.threads import threads_for, use_threads
from askew.rounds.diverged import check_models, check_updates
from askew.rounds.gather import Gathering, GlobalModel
from askew.rounds.held_out import Progress
from askew.rounds.left_out import record_of as left_out_record
from askew.rounds.record import RESERVED, Record, plain_numbers
from askew.rounds.round import begin, one_round
from askew.rounds.standing import RowOf, Standing, by_devices, held_out_column, judged_on


@dataclass(frozen=True)
class Launched:
    """A round that has been handed to the device: what its clients send, the models the server makes of it, and what
    the host wants to know of both, on its way."""

    gathering: Gathering
    after: dict[int, GlobalModel]
    report: ToHost


class Simulation:
    """A federated training run, advanced one round at a time.

    All randomness is a function of (seed, role, round, client), so a run that is resumed from `state` goes on exactly
    as it would have without the break.

    With an engine of several processes each of them has one, which all do the same but train, judge and remember
    different clients; `collect` brings what clients remember to the first.

    A GPU is handed the next round before the host waits for this one; where that hangs on how this one goes (FedCD's
    scores, a guard), it is not.

    Args:
        ahead: hand over the next round early; by default on GPUs.
        start: what `initial_model` gives for the task, where it is known.
    """

    def __init__(self, task: Task, engine: Engine, ahead: bool | None = None, start: ModelState | None = None) -> None:
        self.task = task
        self.engine = engine
        self._runs_ahead = task.device.type != "cpu" if ahead is None else ahead
        self._next: Launched | None = None
        self.round = 0
        self.last_record: Record = {}
        self.threads = threads_for(task, engine)
        with use_threads(self.threads.training):  # a start may be trained
            start = initial_model(task) if start is None else start
        self.models: dict[int, GlobalModel] = {0: GlobalModel(start, task.server.init(start.params))}
        self.pool_state = task.pool.init(task.num_clients)
        self._probe_context = ProbeContext(
            module=task.module, data=task.data, population=task.population,
            batch_size=task.recipe.batch_size, train=self._train_twin, predict=partial(predict, task),
        )
        # One state per probe and model; a model that is new to a probe starts afresh.
        self._probe_states: list[dict[int, Any]] = [{0: probe.init(self._probe_context)} for probe in task.probes]
        rest = num_bytes(start.buffers)
        self._bytes_down = (task.server.payload or num_bytes)(start.params) + rest
        self._bytes_up = (task.client.payload or num_bytes)(start.params) + rest
        self._held_out = held_out_column(task)
        self._taken = RESERVED | {task.objective.headline, self._held_out}
        self._progress = Progress()
        self.memory = ClientMemory(task.client.keep, start)

    @property
    def _peers(self) -> Peers | None:
        return self.engine.peers

    def collect(self) -> None:
        """Bring what clients of other processes remember to the first one, as far as it has changed."""
        if self._peers is None or not self.memory:
            return
        for changes in self._peers.to_first([] if self._peers.leads else self.memory.changes())[1:]:
            for number, clients, rows in changes:
                self.memory.put(number, clients, rows)

    def spread(self) -> None:
        """The state of the first process to all others, and to each what its own clients remember."""
        if self._peers is None:
            return
        state = self._peers.first(self.state)
        if not self._peers.leads:
            self.state = state
            self.memory.keep_only(self._peers.owns)

    @property
    def finished(self) -> bool:
        return self.round >= self.task.recipe.rounds or self.stopped_early is not None

    @property
    def stopped_early(self) -> str | None:
        """Why there are no more rounds before the last one, where it is so."""
        patience, progress = self.task.recipe.stop_after_no_gain, self._progress
        if not patience or progress.without_gain < patience or self.round >= self.task.recipe.rounds:
            return None
        name, best = self._held_out.replace("_", " "), self.task.objective.shown(progress.best or 0.0)
        return f"{name} was best in round {progress.at} ({best}), and has not gained in {progress.without_gain} rounds"

    @property
    def by_devices(self) -> bool:
        """Whether it is judged by each client's own test data, not by the whole test set."""
        return by_devices(self.task)

    @property
    def judged_on(self) -> str:
        """On what the headline is taken, in words."""
        return judged_on(self.task)

    @property
    def state(self) -> dict[str, Any]:
        """All that a checkpoint must hold."""
        return {"round": self.round, "pool": self.pool_state, "probes": self._probe_states, "frozen": self.task.frozen,
                **({"memory": self.memory.state} if self.memory else {}),
                **({"progress": asdict(self._progress)} if self.task.recipe.stop_after_no_gain else {}),
                "models": {number: {"params": m.model.params, "buffers": m.model.buffers, "chain": m.chain}
                           for number, m in self.models.items()}}

    @state.setter
    def state(self, saved: Mapping[str, Any]) -> None:
        self._next = None
        stored, fresh = next(iter(saved["models"].values())), self.task.fresh
        saved_shapes, shapes = ({name: tuple(v.shape) for name, v in tensors.items()} for tensors in (
            {**stored["params"], **stored["buffers"]}, {**fresh.params, **fresh.buffers}))
        if saved_shapes != shapes:
            odd = next(name for name in {**shapes, **saved_shapes} if shapes.get(name) != saved_shapes.get(name))
            raise AskewError(f"the checkpoint is of another network: {odd} is {saved_shapes.get(odd, 'missing')} "
                             f"there and {shapes.get(odd, 'missing')} here; continue with the network that the run "
                             "began with")
        with torch.no_grad():
            for name, v in self.task.frozen.items():
                v.copy_(saved.get("frozen", {}).get(name, v))
        self.round, self._probe_states = saved["round"], saved["probes"]
        self.pool_state = self.task.pool.restore(saved["pool"])
        self.models = {number: GlobalModel(ModelState(m["params"], m["buffers"]), m["chain"])
                       for number, m in saved["models"].items()}
        self._progress = Progress(**saved.get("progress", {}))
        if self.memory and "memory" in saved:
            self.memory.state = saved["memory"]

    def view(self, number: int = 0) -> ModelState:
        """The model to evaluate and to use; FedNNNN's differs from the one that training goes on from."""
        return self._evaluated(self.models[number])

    def _evaluated(self, entry: GlobalModel) -> ModelState:
        return ModelState(self.task.server.view(entry.model.params, entry.chain), entry.model.buffers)

    def advance(self) -> Record:
        """One round, or none of it: whatever stops it half-way (`DivergedError`, Ctrl-C) leaves all as it was."""
        launched, self._next = self._next or self.launch(), None
        coming = self.launch(launched) if self.foresees(launched) else None
        record = self.complete(launched)
        self._next = coming
        return record

    def launch(self, behind: Launched | None = None) -> Launched:
        """Hand a round to the device; waits for nothing and changes nothing.

        Args:
            behind: the round before it, where that is not complete yet.
        """
        with use_threads(self.threads.training):
            gathering = self.begin(behind)
            return self.launched(gathering, one_round([gathering], self.engine)[0])

    def foresees(self, launched: Launched) -> bool:
        """Whether there is a round behind one that is under way, and it can be begun."""
        task = self.task
        return (self._runs_ahead and self._peers is None and not task.pool.needs_validation and not self.memory
                and not task.guards and not task.recipe.stop_after_no_gain
                and launched.gathering.round + 1 < task.recipe.rounds)

    def begin(self, behind: Launched | None = None) -> Gathering:
        """Who trains what in the next round, or in the one after `behind`; changes nothing."""
        round, entries = self.round, self.models
        if behind is not None:
            round, entries = behind.gathering.round + 1, {**behind.gathering.entries, **behind.after}
        return begin(self.task, self._probe_context, round, entries, self.pool_state, self.memory)

    def launched(self, gathering: Gathering, after: dict[int, GlobalModel]) -> Launched:
        """A round that has been trained and aggregated, and what the host wants to know of it."""
        finite = [get_total_norm([v for v in entry.model.params.values() if v.numel()], norm_type=math.inf)
                  for entry in after.values()]
        lengths = [length for _, length in gathering.lengths.values()]
        return Launched(gathering, after, ToHost([gathering.train_loss, *finite, *lengths]))

    def complete(self, launched: Launched) -> Record:
        """Wait for a round, check, measure and evaluate it."""
        before = self.round, self.models, self.pool_state, self._probe_states
        self.models, self._probe_states = dict(self.models), [dict(states) for states in self._probe_states]
        try:
            with use_threads(self.threads.training):  # probes may train
                self._complete(launched)
        except BaseException:
            # Else the round is done, and the interruption came at its end.
            if self.last_record.get("round", 0) <= before[0]:
                self.round, self.models, self.pool_state, self._probe_states = before
            raise
        return self.last_record

    def _complete(self, launched: Launched) -> None:
        task, gathering, after = self.task, launched.gathering, launched.after
        cohorts = gathering.cohorts
        loss, *rest = launched.report.read()
        check_updates(task, self.round + 1, {number: clients for number, (clients, _) in gathering.lengths.items()},
                      rest[len(after):])
        check_models(task, self.round + 1, dict(zip(after, rest, strict=False)), cohorts)
        record: Record = {"round": self.round + 1, "clients": len(gathering.clients),
                          "train_loss": float(loss) if gathering.lengths else None}
        if task.adversities or task.guards or gathering.left_out:
            record |= left_out_record(gathering.left_out)
            record |= plain_numbers("adversity", gathering.measured, self._taken)
        for number, cohort in cohorts.items():
            record |= self._probe(number, cohort, after[number], gathering.observed[number])
        record |= {"bytes_down": len(gathering.asked) * self._bytes_down + gathering.bytes_shared,
                   "bytes_up": len(gathering.jobs) * self._bytes_up + gathering.bytes_beside}
        self.models |= after
        self.round += 1
        changes = self._update_pool() if task.pool.needs_validation else Changes()
        measured = task.pool.metrics(self.pool_state, task.population.groups)
        record |= plain_numbers(f"pool {task.recipe.pool.name}", measured, self._taken)
        record |= {name: value for name, value in (("cloned", [list(pair) for pair in changes.clones]),
                                                   ("deleted", list(changes.deleted))) if value}
        if self.round % task.recipe.evaluate_every == 0 or self.finished:
            record |= self.evaluate(self._rows_after(gathering, changes))
        with shielded():  # memory is changed in place: this is done whole, and with it the round
            self._remember(gathering, changes)
            self.last_record = record
            if self._held_out in record:
                self._progress = self._progress.with_score(self.round, record[self._held_out], task.objective)

    def _remember(self, gathering: Gathering, changes: Changes) -> None:
        for number, clients, rows in gathering.remembered:
            self.memory.put(number, clients, rows)
        for parent, child in changes.clones:
            self.memory.clone(parent, child)
        for number in changes.deleted:
            self.memory.forget(number)

    def _rows_after(self, gathering: Gathering, changes: Changes) -> RowOf:
        """What clients will remember when the round is done, of which nothing has been taken down yet."""
        new = {(number, client): (rows, at) for number, clients, rows in gathering.remembered
               for at, client in enumerate(clients)}
        parents = {child: parent for parent, child in changes.clones}

        def row(number: int, client: int) -> Tree:
            number = parents.get(number, number)
            if (number, client) not in new:
                return self.memory.row(number, client)
            rows, at = new[number, client]
            return tree_map(lambda v: v[at], rows)

        return row

    def evaluate(self, row: RowOf | None = None) -> Record:
        """The objective's measures and the loss now, as the recipe wants them judged.

        Args:
            row: (model, client) -> what the client remembers of it, where that is not what `memory` holds.
        """
        return self._standing(row or self.memory.row, self._peers).record(self.threads.evaluation)

    def device_scores(self) -> np.ndarray:
        """Each client's score with the model that it would use now, judged here whoever trains it."""
        return self._standing(self.memory.row).device_scores()

    def _standing(self, row: RowOf, peers: Peers | None = None) -> Standing:
        choice = np.asarray(self.task.pool.choice(self.pool_state))
        return Standing(self.task, self.round, self.view, choice, row, peers)

    def _update_pool(self) -> Changes:
        task = self.task
        accuracies = self._validate()
        key = rng.key(task.recipe.seed, "pool", self.round)
        self.pool_state, changes = task.pool.after_round(self.pool_state, accuracies, self.round, key)
        for parent, child in changes.clones:
            self.models[child] = self.models[parent]  # values are never changed in place: sharing is copying
        for number in changes.deleted:
            for states in (self.models, *self._probe_states):
                states.pop(number, None)
        return changes

    def _validate(self) -> np.ndarray:
        """[clients, models] the score of each model that a client keeps on the client's validation examples; else 0."""
        task, owned = self.task, self.task.population.validation
        assert owned is not None, "build_task checked that"
        numbers, keeps = task.pool.keeps(self.pool_state)
        result = np.zeros(keeps.shape)
        if self._peers is not None:  # each process asks its own clients
            keeps = keeps & (np.arange(len(keeps)) % self._peers.world == self._peers.rank)[:, None]
        for at, number in enumerate(numbers):
            users = keeps[:, at]
            index = torch.from_numpy(owned.indices[np.repeat(users, owned.sizes)]).to(task.device)
            examples = Examples(task.data.train.x[index], task.data.train.y[index])
            scores = example_scores(task, self.view(number), examples).cpu()
            result[users, at] = means_of_parts(scores, owned.sizes[users])
        return result if self._peers is None else self._peers.of_owners(result)

    def _probe(self, number: int, cohort: Cohort, after: GlobalModel, gathered: dict[int, Any]) -> Record:
        """Probes read the first model under its plain names, further ones with the model's number in front."""
        record: Record = {}
        for i, probe in enumerate(self.task.probes):
            seen = Round(self.round + 1, self.models[number].model, after.model,
                         cohort, cohort.clients, self._evaluated(after))
            states = self._probe_states[i]
            state = states[number] if number in states else probe.init(self._probe_context)
            values, states[number] = probe.read(self._probe_context, seen, state, gathered.get(i))
            values = plain_numbers(f"probe {probe.spec.name if probe.spec else i}", values, self._taken)
            record |= {name if number == 0 else f"model {number}: {name}": value for name, value in values.items()}
        return record

    def _train_twin(self, model: ModelState, indices: np.ndarray, batch_size: int, round: int) -> ModelState:
        return train_pooled(self.task, model, indices, epochs=self.task.recipe.epochs, role="twin", number=round,
                            batch_size=batch_size, round=round)
