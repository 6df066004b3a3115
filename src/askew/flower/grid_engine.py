"""An engine whose clients are somewhere else: one message per client and model over Flower's grid.

What comes back is checked before it counts: names, shapes, types, finite, as many examples as the client registered,
a length that is not far from the others'. What fails is left out, with a line that names the node. The rest is handed
on in the order of the jobs, so that the same seed gives the same sums whoever is quicker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from askew.core.cohort import squared_lengths
from askew.core.compat import tree_leaves, tree_map
from askew.core.errors import AskewError, first_line
from askew.core.tensors import ModelState, Tree
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.task import Task
from askew.flower.exchange import Failure, exchange
from askew.flower.library import say
from askew.flower.messages import ABOUT, JUDGE, NUMBERS, TRAIN, Charge, judge_content, train_content
from askew.flower.node_memory import Version, from_text
from askew.flower.roster import Roster
from askew.flower.settings import ServerSettings
from askew.flower.wire import WrongForm, tree_of
from askew.pieces.guard import leave_out

Ledger = dict[tuple[int, int], Version]  # (model, client) -> the version of its memory that counts


class GridEngine:
    """Clients on a Flower grid.

    Args:
        form: of what a client of this task sends.
        grid: Flower's.
        schema: how clients' tables become inputs, in JSON.

    Attributes:
        ledger: which version of its memory each client goes on from; `Deployment` keeps it.
        received: what the clients of the last round thought of the models that they were sent.
    """

    name = "flower"
    one_at_a_time = True
    batches_lanes = False
    peers = None

    def __init__(self, task: Task, form: Tree, grid: Any, roster: Roster, settings: ServerSettings,
                 schema: str = "") -> None:
        self._task, self._grid, self._roster, self._settings = task, grid, roster, settings
        self.ledger: Ledger = {}
        self._guard = leave_out(settings.longest)
        self._recipe, self._schema = task.recipe.to_toml(), schema
        self._form = form
        self.received: dict[str, float] = {}

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        for i, lane in enumerate(lanes):
            for chunk in self._round(lane):
                yield i, chunk

    def judge(self, round: int, models: Mapping[int, ModelState], wanted: Mapping[int, Sequence[int]],
              ledger: Ledger) -> dict[int, dict[str, float]]:
        """How good models are at the clients: client -> what it says; clients that say nothing are not there.

        Args:
            round: rounds completed.
            wanted: client -> the models that it is to judge.
            ledger: with which versions of their memory.
        """
        contents = {}
        for client, numbers in wanted.items():
            versions = {n: ledger[n, client] for n in numbers if (n, client) in ledger}
            content = judge_content(self._charge(client, round), {n: models[n] for n in numbers}, self._task.frozen,
                                    versions)
            contents[client] = self._roster.members[client].node, content
        result = {}
        for client, reply in self._exchange(JUDGE, contents, round).items():
            try:
                if isinstance(reply, Failure):
                    raise AskewError(reply.reason)
                result[client] = _finite(reply[NUMBERS])
            except (AskewError, LookupError, TypeError, ValueError) as error:
                say(f"round {round}: {self._roster.called(client)} judges no model: {first_line(error)}")
        return result

    def _exchange(self, kind: str, contents: Mapping[Any, tuple[int, Any]], round: int) -> dict[Any, Any]:
        return exchange(self._grid, kind, contents, str(round), self._settings.deadline, self._settings.poll)

    def _charge(self, client: int, round: int) -> Charge:
        roster = self._roster
        return Charge(roster.run, self._recipe, self._schema, client, len(roster.members), roster.classes, round)

    def _round(self, lane: Lane) -> list[Chunk]:
        """The jobs of a lane that came to something, in their order."""
        contents = {job: (self._roster.members[job.client].node, self._content(lane, job)) for job in lane.jobs}
        replies = self._exchange(TRAIN, contents, lane.round)
        chunks: dict[Job, Chunk] = {}
        tested: dict[Job, dict[str, float]] = {}
        for job, reply in replies.items():
            try:
                if isinstance(reply, Failure):
                    raise _Refused(reply.kind, reply.reason)
                chunks[job] = self._checked(job, reply)
                tested[job] = {name.removeprefix("received/"): float(value) for name, value in reply[NUMBERS].items()
                               if name.startswith("received/") and math.isfinite(float(value))}
                self._check_memory(job, reply, lane.round)
            except _Refused as refusal:
                self._leave_out(lane, job, refusal.kind, str(refusal))
        for job in self._too_long(chunks):
            self._leave_out(lane, job, "too_long", f"its update is more than {self._settings.longest:g} times as long "
                            "as the median")
            del chunks[job], tested[job]
        senders, asked = ({job.client for job in jobs} for jobs in (chunks, lane.jobs))
        if len(senders) < min(self._settings.min_clients, len(asked)):
            raise AskewError(f"round {lane.round + 1}: {len(senders)} of {len(asked)} clients sent what can be used in "
                             f"{self._settings.deadline:g} s, and min-clients is {self._settings.min_clients}; see to "
                             "the nodes, and go on with resume=true")
        self.received = by_test_examples({job.client: numbers for job, numbers in tested.items()}, self._roster)
        return [chunks[job] for job in lane.jobs if job in chunks]

    def _content(self, lane: Lane, job: Job) -> Any:
        needed = {version for (_, client), version in self.ledger.items() if client == job.client}
        return train_content(self._charge(job.client, lane.round), job.model, lane.models[job.model],
                             self._task.frozen, lane.shared.get(job.model, {}),
                             self.ledger.get((job.model, job.client)), sorted(needed))

    def _checked(self, job: Job, reply: Any) -> Chunk:
        """A reply as a chunk, if it is what a client of this recipe sends."""
        try:
            message = tree_of(reply["message"], self._form)
            loss, examples = float(reply[NUMBERS]["loss"]), reply[NUMBERS]["examples"]
        except WrongForm as error:
            raise _Refused("wrong_form", str(error)) from None
        except Exception as error:  # a record that is missing, or of another kind
            raise _Refused("wrong_form", f"the reply cannot be read: {first_line(error)}") from None
        registered = self._roster.members[job.client].examples
        if examples != registered:
            raise _Refused("wrong_size", f"it says that it has {examples} examples, and registered {registered}")
        if not math.isfinite(loss) or not all(bool(v.isfinite().all()) for v in tree_leaves(message)):
            raise _Refused("not_finite", "what it sent is not finite")
        device = self._task.device
        return Chunk([job], tree_map(lambda v: v[None].to(device), message), torch.tensor([loss], device=device))

    def _too_long(self, chunks: Mapping[Job, Chunk]) -> list[Job]:
        """Whose updates are far longer than those of the same model's others."""
        refused_jobs: list[Job] = []
        for number in dict.fromkeys(job.model for job in chunks):
            jobs = [job for job in chunks if job.model == number]
            lengths = torch.cat([squared_lengths(chunks[job].updates).sum(dim=1).sqrt() for job in jobs]).cpu()
            refused = torch.stack(list(self._guard.refuses(lengths).values())).any(dim=0)
            refused_jobs += [job for job, out in zip(jobs, refused.tolist(), strict=True) if out]
        return refused_jobs

    def _check_memory(self, job: Job, reply: Any, round: int) -> None:
        """Say so where a client has not gone on from what it should remember."""
        asked = self.ledger.get((job.model, job.client))
        started = next(iter(from_text(reply[ABOUT]["start"])), None)
        if started != asked:
            lost = f"of its round {asked[1] + 1}" if asked else ""
            say(f"round {round + 1}: {self._roster.called(job.client)} has lost its memory {lost}; it started as in "
                "its first round")

    def _leave_out(self, lane: Lane, job: Job, kind: str, reason: str) -> None:
        lane.left_out.setdefault(kind, []).append(job.client)
        of = f", model {job.model}" if len(lane.models) > 1 else ""
        say(f"round {lane.round + 1}: {self._roster.called(job.client)}{of} is left out: {reason}")


class _Refused(Exception):
    """A reply that does not count.

    Args:
        kind: a word for the record.
        reason: in words.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def _finite(record: Any) -> dict[str, float]:
    numbers = {str(name): float(value) for name, value in record.items()}
    if odd := [name for name, value in numbers.items() if not math.isfinite(value)]:
        raise AskewError(f"{odd[0][:50]} is not finite")
    return numbers


def by_test_examples(numbers: Mapping[int, Mapping[str, float]], roster: Roster) -> dict[str, float]:
    """Means over clients by their test examples."""
    judges = {client: values for client, values in numbers.items() if values and roster.members[client].test}
    total = sum(roster.members[client].test for client in judges)
    names = sorted(set.intersection(*(set(values) for values in judges.values()))) if judges else []
    return {name: sum(roster.members[client].test * values[name] for client, values in judges.items()) / total
            for name in names}
