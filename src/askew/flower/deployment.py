"""A run whose clients are real: the rounds are those of a simulation; what only clients can know is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from askew.core.client_memory import ClientMemory
from askew.core.errors import AskewError
from askew.core.pool import Changes
from askew.core.tensors import ModelState
from askew.engine.evaluate import device_record, evaluate, record_of
from askew.engine.task import Task
from askew.flower.grid_engine import GridEngine, Ledger, by_test_examples
from askew.flower.roster import Roster
from askew.rounds.gather import Gathering
from askew.rounds.record import Record
from askew.rounds.simulation import Simulation
from askew.rounds.standing import RowOf


class Deployment(Simulation):
    """A simulation's rounds with clients elsewhere.

    What clients remember stays with them; the server keeps which version of it counts. Where a pool scores models on
    clients' validation examples, or the server has no test set, the clients judge, in one message each and round.

    Args:
        tested: whether the server has a test set.
    """

    engine: GridEngine

    def __init__(self, task: Task, engine: GridEngine, roster: Roster, tested: bool,
                 start: ModelState | None = None) -> None:
        super().__init__(task, engine, ahead=False, start=start)
        self._roster, self._tested = roster, tested
        def elsewhere(*_: Any) -> Any:
            raise AskewError("a probe wants examples that the server of a deployment does not have; leave it out of "
                             "the recipe")

        context = replace(self._probe_context, train=elsewhere)
        self._probe_context = context if tested else replace(context, predict=elsewhere)
        self._remembers = bool(self.memory)
        self.memory = ClientMemory(lambda model: (), task.fresh)  # nobody's: it stays with the clients
        self._ledger_to_be: Ledger | None = None  # while a round is judged: as it will be when it is done
        self._said: dict[int, dict[str, float]] = {}  # client -> what it last said of models
        self._said_in = -1  # rounds completed when they were asked last
        self._clones: Mapping[int, int] = {}  # child -> parent, of the round that is being completed
        if not self.judged_by_server and not any(member.test for member in roster.members):
            what = "its recipe lets devices use models of their own" if tested else "the server has no test set"
            raise AskewError(f"nobody can judge the run: {what}, and no client has test examples of its own; name data "
                             "for the server (data = \"...\"), let clients report their labels (report-labels = true), "
                             "or give them test examples")

    @property
    def judged_by_server(self) -> bool:
        """Whether the server's test set says how good the run is."""
        knows = self._roster.counts is not None
        return self._tested and not self.task.client.enters and (knows or not self.by_devices)

    @property
    def can_be_evaluated(self) -> bool:
        """Whether the final models can be judged in detail here: on a test set, knowing which classes clients have."""
        return self.judged_by_server and self._roster.counts is not None

    @property
    def judged_on(self) -> str:
        if self.judged_by_server:
            return super().judged_on
        sizes = [member.test for member in self._roster.members if member.test]
        return f"{sum(sizes):,} test examples of {len(sizes)} clients' own, at the clients"

    @property
    def state(self) -> dict[str, Any]:
        ledger = [[model, client, *version] for (model, client), version in self.engine.ledger.items()]
        return {**super().state, "ledger": ledger, "said": self._said}

    @state.setter
    def state(self, saved: Mapping[str, Any]) -> None:
        Simulation.state.__set__(self, saved)  # type: ignore[attr-defined]
        self.engine.ledger = {(model, client): (of, round) for model, client, of, round in saved["ledger"]}
        self._said = saved["said"]

    def _complete(self, launched: Any) -> None:
        self._ledger_to_be = None
        super()._complete(launched)
        received = {f"received_{name}": value for name, value in self.engine.received.items()}
        self.last_record.update(received)

    def _remember(self, gathering: Gathering, changes: Changes) -> None:
        self.engine.ledger = self._ledger_after(gathering, changes)
        self._ledger_to_be = None

    def _rows_after(self, gathering: Gathering, changes: Changes) -> RowOf:
        """Clients judge with what they remember of this round, which is not taken down before it is judged."""
        self._ledger_to_be = self._ledger_after(gathering, changes)
        return super()._rows_after(gathering, changes)

    def _ledger_after(self, gathering: Gathering, changes: Changes) -> Ledger:
        """The versions that count from now on: those of whose updates the models were made."""
        ledger = dict(self.engine.ledger)
        if self._remembers:
            for number, cohort in gathering.cohorts.items():
                ledger.update({(number, client): (number, gathering.round) for client in cohort.clients})
            for parent, child in changes.clones:
                ledger.update({(child, client): version for (number, client), version in list(ledger.items())
                               if number == parent})
        return {at: version for at, version in ledger.items() if at[0] not in changes.deleted}

    def _update_pool(self) -> Changes:
        changes = super()._update_pool()
        self._clones = {child: parent for parent, child in changes.clones}
        return changes

    def _validate(self) -> np.ndarray:
        """[clients, models] as the clients say; of one that says nothing, what it said last, or the others' mean."""
        numbers, keeps = self.task.pool.keeps(self.pool_state)
        self._ask({client: [int(number) for number in np.asarray(numbers)[row]] for client, row in enumerate(keeps)})
        result = np.zeros(keeps.shape)
        for at, number in enumerate(numbers):
            said = {client: values[f"validation/{number}"] for client, values in self._said.items()
                    if f"validation/{number}" in values}
            if not said:
                raise AskewError(f"round {self.round}: no client says how good model {number} is; see to the nodes, "
                                 "and go on with resume=true")
            mean = float(np.mean(list(said.values())))
            for client in np.flatnonzero(keeps[:, at]):
                result[client, at] = said.get(int(client), mean)
        return result

    def _ask(self, wanted: Mapping[int, list[int]]) -> None:
        models = {int(number): self.view(int(number)) for numbers in wanted.values() for number in numbers}
        ledger = self.engine.ledger if self._ledger_to_be is None else self._ledger_to_be
        self._said = {**self._said, **self.engine.judge(self.round, models, wanted, ledger)}
        self._said_in = self.round

    def evaluate(self, row: RowOf | None = None) -> Record:
        if self.can_be_evaluated:
            return super().evaluate(row)
        choice = np.asarray(self.task.pool.choice(self.pool_state))
        if self.judged_by_server:
            return self._server_record(choice)
        if self._said_in != self.round:  # else they have said so along with their validation scores
            self._ask({client: [int(number)] for client, number in enumerate(choice)})
            self._clones = {}
        words = {client: self._own(client, int(number)) for client, number in enumerate(choice)}
        judges = {client: values for client, values in words.items() if values}
        if not judges:
            raise AskewError(f"round {self.round}: no client says how good its model is; see to the nodes, and go on "
                             "with resume=true")
        result: Record = by_test_examples(judges, self._roster)
        headline = self.task.objective.headline
        scores = np.array([words[client].get(headline, np.nan) for client in range(len(choice))])
        result |= device_record(scores, None, self.task.objective)
        if self.by_devices:
            result[headline] = float(np.nanmean(scores))
        return result

    def _own(self, client: int, number: int) -> dict[str, float]:
        """What a client says of the model that it uses; a clone is what its parent was when it was asked."""
        prefix = f"test/{self._clones.get(number, number)}/"
        return {name.removeprefix(prefix): value for name, value in self._said.get(client, {}).items()
                if name.startswith(prefix)}

    def _server_record(self, choice: np.ndarray) -> Record:
        """On the server's test set alone: what classes clients have is not known."""
        return record_of({int(n): evaluate(self.task, self.view(int(n))) for n in np.unique(choice)}, choice)
