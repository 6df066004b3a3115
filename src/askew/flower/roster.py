"""Who takes part in a run: the nodes that answered, what they say they have, and the number that each has here."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from askew.core.arguments import check_fields
from askew.core.bounds import LARGEST, Bounds, Count
from askew.core.errors import AskewError, first_line
from askew.core.files import csv_text, read_json, write_json, write_text
from askew.core.targets import Targets
from askew.flower.exchange import Failure, exchange
from askew.flower.library import RecordDict, say
from askew.flower.messages import ABOUT, HELLO, Charge
from askew.flower.settings import ServerSettings
from askew.runs.model_file import DTYPES

CLIENTS, LABELS = "clients.json", "labels.csv"  # in the run folder
FORM = ("shape", "dtype", "targets", "target_shape", "inputs")  # in which all clients must be alike
ALIKE = ("names, categories, gaps or vocabulary differ: encode all alike by a schema (docs/deploy.md, tables that "
         "differ)")
Size = Annotated[int, Bounds(0, LARGEST)]


@dataclass(frozen=True)
class Member:
    """A client: what its node says of it.

    Args:
        client: its name.
        node: Flower's number of its node.
        examples, validation, test: how many it has.
        shape, dtype: of one input.
        targets, target_shape: what is to be learnt.
        classes: names of the classes, numbers, labels or tokens.
        inputs: a fingerprint of what a table's columns became.
        labels: how many training examples of each class; nothing where the node does not tell.
    """

    client: str
    node: int
    examples: Count
    validation: Size
    test: Size
    shape: tuple[Size, ...]
    dtype: str
    targets: Targets
    target_shape: tuple[Size, ...]
    classes: tuple[str, ...]
    inputs: str
    labels: tuple[Size, ...]

    def __post_init__(self) -> None:
        check_fields(self, "node")  # which has 64 bits without a sign
        if not self.client or not self.client.isprintable() or len(self.client) > 100:
            raise AskewError(f"its name {self.client[:100]!r} is none")
        if self.dtype not in DTYPES or not self.classes:
            raise AskewError(f"inputs of type {self.dtype[:20]!r} and {len(self.classes)} classes are none")
        kinds = len(self.classes) if self.targets == "classes" else 1
        if self.labels and (len(self.labels) != kinds or sum(self.labels) != self.examples):
            raise AskewError(f"{len(self.labels)} counts of labels, {sum(self.labels)} in all, are not those of "
                             f"{self.examples} examples of {kinds} classes")

    @classmethod
    def of(cls, node: int, record: Mapping[str, Any]) -> Member:
        try:
            facts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value
                                     for key, value in record.items()}
            return cls(**{**facts, "node": node})
        except TypeError as error:
            raise AskewError(first_line(error)) from None


@dataclass(frozen=True)
class Roster:
    """The clients of a run, in the order of their numbers."""

    run: str
    members: tuple[Member, ...]
    classes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [member.client for member in self.members]

    @property
    def counts(self) -> np.ndarray | None:
        """[clients, classes] training examples; None where a client does not tell."""
        if not all(member.labels for member in self.members):
            return None
        if self.members[0].targets != "classes":
            return np.array([[member.examples] for member in self.members])
        counts = np.zeros((len(self.members), len(self.classes)), np.int64)
        for k, member in enumerate(self.members):
            for name, count in zip(member.classes, member.labels, strict=True):
                counts[k, self.classes.index(name)] = count
        return counts

    def called(self, client: int) -> str:
        """A client in words."""
        return f"client {self.members[client].client} (node {self.members[client].node})"

    def save(self, folder: Path) -> None:
        write_json(folder / CLIENTS, {"run": self.run, "classes": list(self.classes),
                                      "clients": [asdict(member) for member in self.members]})
        told = [member for member in self.members if member.labels and member.targets == "classes"]
        if told:  # as `askew diagnose` reads it
            have = [dict(zip(member.classes, member.labels, strict=True)) for member in told]
            rows = [[member.client, *(counts.get(name, 0) for name in self.classes)]
                    for member, counts in zip(told, have, strict=True)]
            write_text(folder / LABELS, csv_text([["client", *self.classes], *rows]))

    @classmethod
    def read(cls, folder: Path) -> Roster:
        stored = read_json(folder / CLIENTS, "list of clients")
        try:
            members = tuple(Member.of(entry["node"], entry) for entry in stored["clients"])
            if not members:
                raise AskewError("it names no clients")
            roster = cls(str(stored["run"]), members, tuple(stored["classes"]))
            _ = roster.counts  # a class of theirs that the federation has not shows now
            return roster
        except (LookupError, ValueError, TypeError, AttributeError) as error:  # AskewError is a ValueError
            raise AskewError(f"{str(folder / CLIENTS)!r} is damaged: {first_line(error)}") from None


def gather(grid: Any, charge: Charge, settings: ServerSettings) -> list[Member]:
    """The nodes that are there and fit together; waits for as many as the settings want, and not longer."""
    ends, asked = time.monotonic() + settings.wait, set[int]()
    members: list[Member] = []
    wanted = settings.clients or settings.min_clients
    while len(members) < wanted and time.monotonic() < ends:
        connected = list(grid.get_node_ids())
        new = [node for node in connected if node not in asked]
        if not new:
            time.sleep(settings.poll)
            continue
        asked |= set(new)
        replies = exchange(grid, HELLO, {node: (node, _greeting(charge)) for node in new}, "hello",
                           max(1.0, ends - time.monotonic()), settings.poll)
        members += [member for node, reply in replies.items() if (member := _member(node, reply)) is not None]
    members = _alike(members)
    if len(members) < settings.min_clients:
        raise AskewError(f"{len(members)} of at least {settings.min_clients} clients (min-clients) are there after "
                         f"{settings.wait:g} s, of {len(list(grid.get_node_ids()))} nodes that are connected; start "
                         "more nodes, see their logs, or wait longer (wait)")
    return members


def enrol(run: str, members: Sequence[Member]) -> Roster:
    """The members of a new run, numbered by their names."""
    names = [member.client for member in members]
    if twice := [name for name in names if names.count(name) > 1]:
        raise AskewError(f"{names.count(twice[0])} nodes call themselves {twice[0]!r}; give each its own name (client "
                         "= \"...\" in its settings)")
    ordered = tuple(sorted(members, key=lambda member: _natural(member.client)))
    return Roster(run, ordered, _classes(ordered))


def known_again(roster: Roster, members: Sequence[Member]) -> Roster:
    """The roster of an earlier session with the nodes of today; who is not there keeps its place."""
    today = {member.client: member for member in members}
    result = []
    for before in roster.members:
        now = today.get(before.client, before)
        if replace(now, node=0, labels=()) != replace(before, node=0, labels=()):
            raise AskewError(f"client {before.client} has not what it had when the run began ({before.examples} "
                             f"examples then, {now.examples} now); bring that back, or begin a new run")
        result.append(replace(before, node=now.node))
    for name in sorted(set(today) - set(roster.names)):
        say(f"client {name} is new: it takes no part in a run that has begun")
    return replace(roster, members=tuple(result))


def _greeting(charge: Charge) -> Any:
    return RecordDict({ABOUT: charge.record()})


def _member(node: int, reply: Any) -> Member | None:
    try:
        if isinstance(reply, Failure):
            raise AskewError(reply.reason)
        return Member.of(node, dict(reply[ABOUT]))
    except (AskewError, LookupError, TypeError, ValueError) as error:
        say(f"node {node} takes no part: {first_line(error)}")
        return None


def _alike(members: Iterable[Member]) -> list[Member]:
    """Those whose examples have the form that most have."""
    members = list(members)
    if not members:
        return []
    forms = [tuple(getattr(member, name) for name in FORM)
             + (() if member.targets == "classes" else member.classes) for member in members]
    usual, _ = Counter(forms).most_common(1)[0]
    for member, form in zip(members, forms, strict=True):
        if form != usual:
            name, has, want = next(((name, a, b) for name, a, b in zip((*FORM, "classes"), form, usual, strict=False)
                                    if a != b), ("classes", "others", "the others'"))
            differs = (f"its {name} is {has}, and most have {want}" if name != "inputs" else
                       f"its table's columns become other inputs than most others' do; {ALIKE}")
            say(f"client {member.client} (node {member.node}) takes no part: {differs}")
    return [member for member, form in zip(members, forms, strict=True) if form == usual]


def _classes(members: Sequence[Member]) -> tuple[str, ...]:
    """The classes that any client has, in the order in which one table of them all would have them."""
    first = members[0].classes
    if all(member.classes == first for member in members):
        return first
    names = {name for member in members for name in member.classes}
    whole = all(re.fullmatch(r"-?\d+", name) for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if whole else (lambda name: (0, name))))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """By which names are sorted: node-2 before node-10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
