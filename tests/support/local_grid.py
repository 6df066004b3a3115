"""A Flower grid in one process: real ClientApps in threads, and messages through Flower's own wire format.

What is not here is the network, processes and keys; `test_deploy_processes.py` has those.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from askew.core.recipe import Recipe
from askew.flower import client_app
from askew.flower.server import serve
from askew.flower.settings import ServerSettings
from askew.runs.result import Result

Fault = Callable[[Message, Message], Any]  # (what was asked, the reply) -> the reply, or None for none at all


def over_the_wire(message: Message) -> Message:
    """A message as the other side gets it: as bytes, and back."""
    contents = {number: part.deflate() for number, part in get_all_nested_objects(message).items()}
    made = inflate_object_from_contents(message.object_id, contents)
    made.metadata.__dict__["_message_id"] = message.object_id
    return made


def _identify() -> None:
    """What Flower's own start of a ServerApp sets, since 1.41."""
    with contextlib.suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SUPERLINK_NODE_ID, 1


class LocalGrid:
    """Nodes by number.

    Args:
        folder: each node has a folder below it.
        settings: node -> the lines of its settings.
        faults: node -> what happens to its replies; may be changed at any time.
        app: the ClientApp; by default askew's as it is.
    """

    def __init__(self, folder: Path, settings: Mapping[int, str], faults: Mapping[int, Fault] | None = None,
                 app: Any = None) -> None:
        _identify()
        self._contexts, self.faults = {}, dict(faults or {})
        self._apps = dict.fromkeys(settings, app or client_app())
        self._replies: dict[str, list[Message]] = {}
        self._lock, self._one = threading.Lock(), threading.Lock()
        self.sent: list[tuple[int, str]] = []
        for node, text in settings.items():
            place = folder / str(node)
            place.mkdir(parents=True, exist_ok=True)
            (place / "node.toml").write_text(text)
            self._contexts[node] = Context(0, node, {"settings": str(place / "node.toml")}, RecordDict(), {})

    def get_node_ids(self) -> Iterable[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        ids: list[str | None] = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.sent.append((node, message.metadata.message_type))
            if node not in self._contexts:
                ids.append(None)
                continue
            message.metadata.__dict__["_message_id"] = message.object_id
            ids.append(message.object_id)
            threading.Thread(target=self._answer, args=(node, over_the_wire(message)), daemon=True).start()
        return ids

    def _answer(self, node: int, message: Message) -> None:
        with self._one:  # as in processes of their own: training seeds torch's global generator
            reply = self._apps[node](message, self._contexts[node])
        if node in self.faults:
            reply = self.faults[node](message, reply)
        if reply is not None:
            with self._lock:
                self._replies.setdefault(message.metadata.message_id, []).append(reply)

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        ids = list(ids)
        with self._lock:
            if broken := [reply for number in ids for reply in self._replies.get(number, [])
                          if isinstance(reply, Exception)]:
                raise broken[0]  # each time that it is asked for, and the others with it
            found = [reply for number in ids for reply in self._replies.pop(number, [])]
        return [reply if reply.has_error() else over_the_wire(reply) for reply in found]


def late(seconds: float) -> Fault:
    def fault(message: Message, reply: Message) -> Message:
        time.sleep(seconds)
        return reply

    return fault


def settings_of_parts(clients: int, **more: Any) -> dict[int, str]:
    """Nodes in an order that is not that of the clients, each with one client's part of the recipe's federation."""
    lines = "".join(f"{key} = {str(value).lower()}\n" for key, value in more.items())
    return {1000 - k: f'client = "c{k}"\npart = {k}\nreport-labels = true\n{lines}' for k in range(clients)}


def deployed(folder: Path, recipe: Recipe, grid: LocalGrid | None = None, **settings: Any) -> Result:
    """A recipe on a grid of its clients; what came of it."""
    (folder / "recipe.toml").write_text(recipe.to_toml())
    clients = settings.get("clients") or recipe.population.scheme.args["clients"]
    grid = grid or LocalGrid(folder / "nodes", settings_of_parts(clients))
    told = {"clients": clients, "data": "recipe", "poll": 0.005, "wait": 20.0, "deadline": 20.0,
            "recipe": str(folder / "recipe.toml"), "out": str(folder / "run"), **settings}
    return serve(grid, ServerSettings(**told))
