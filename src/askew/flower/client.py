"""The ClientApp: what a node does with a message. Local training is that of the reference engine, on its own data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from askew.core.client_memory import ClientMemory
from askew.core.compat import tree_map
from askew.core.errors import AskewError, first_line
from askew.core.recipe import Recipe
from askew.core.tensors import ModelState, Tree
from askew.data.schema import parse_schema
from askew.engine.device import available
from askew.engine.evaluate import evaluate, example_scores
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import train_job
from askew.engine.task import Task
from askew.flower.library import ClientApp, ConfigRecord, Error, ErrorCode, Message, MetricRecord, RecordDict, say
from askew.flower.messages import ABOUT, HELLO, JUDGE, NUMBERS, TRAIN, Charge, model_in, reply_content, versions_in
from askew.flower.node_data import Load, facts, load, task_of
from askew.flower.node_memory import NodeMemory, Version, from_text
from askew.flower.settings import NodeSettings
from askew.flower.wire import tree_of


def client_app(data: Load | None = None) -> Any:
    """A ClientApp that takes part in any recipe of a server of askew.

    Args:
        data: (the node's settings, the recipe) -> its examples, a `Dataset` or `NodeData`; None: as the settings say.
    """
    app = ClientApp()

    def handled(kind: str, action: Callable[[_Node], Any]) -> None:
        def handle(message: Any, context: Any) -> Any:
            try:
                return Message(action(_Node(message.content, context, data)), reply_to=message)
            except Exception as error:  # it may quote a cell or a path: that stays here
                # one line where it is said what to do; else with the way that it came
                say(f"no answer to {kind}: {first_line(error)}", None if isinstance(error, AskewError) else error)
                reason = f"{type(error).__name__}; the node's log says more"
                return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)

        category, name = kind.split(".")
        getattr(app, category)(name)(handle)

    handled(HELLO, _Node.hello)
    handled(TRAIN, _Node.train)
    handled(JUDGE, _Node.judge)
    return app


class _Node:
    """A node with one message to answer."""

    def __init__(self, content: Any, context: Any, data: Load | None) -> None:
        self._content, self._about = content, content[ABOUT]
        self._charge = Charge.of(self._about)
        self._settings = settings_of(context)
        self._recipe = Recipe.from_toml(self._charge.recipe)
        self._device = available(self._settings.device)
        schema = parse_schema(self._charge.schema, "what the server sends") if self._charge.schema else None
        self._data = load(self._settings, self._recipe, data, schema)

    def hello(self) -> Any:
        """What this node has."""
        known = facts(self._data, self._settings)
        return RecordDict({ABOUT: ConfigRecord(known)})

    def train(self) -> Any:
        """This client's round with one model."""
        task, client, number = self._task(), self._charge.client, int(self._about["model"])
        start = self._model(task, "model")
        form = dict(task.server.broadcast(task.server.init(start.params))) if task.server.broadcasts else {}
        shared = self._placed(tree_of(self._content["shared"], form))
        memory, asked = ClientMemory(task.client.keep, start), next(iter(from_text(self._about["start"])), None)
        row, started = self._remembered(task, start, asked)
        if memory:
            memory.put(number, [client], tree_map(lambda v: v[None], row))
        received = self._tested(task, self._entered(task, start, row)) if self._data.tested else {}
        lane = Lane(task, {number: start}, [Job(number, client)], self._charge.round, {number: shared}, memory or None)
        with torch.random.fork_rng(devices=[]):  # local training seeds the global generator
            chunk = train_job(lane, lane.jobs[0], task.module)
        if memory:
            kept = tree_map(lambda v: v[0], chunk.kept)
            keep = [*from_text(self._about["keep"]), *([asked] if asked else [])]
            self._memory.put((number, self._charge.round), kept, keep)
        message = tree_map(lambda v: v[0], dict(chunk.message))
        return reply_content(message, float(chunk.losses[0]), len(self._data.data.train), started,
                             {f"received/{name}": value for name, value in received.items()})

    def judge(self) -> Any:
        """How good models are on examples that this client does not train on."""
        task, versions, numbers = self._task(), versions_in(self._about), {}
        validation = self._data.with_classes(self._charge.classes).validation
        for number in map(int, self._about["models"]):
            model = self._model(task, f"model {number}")
            row, _ = self._remembered(task, model, versions.get(number))
            model = self._entered(task, model, row)
            if validation is not None:
                numbers[f"validation/{number}"] = float(example_scores(task, model, validation).mean())
            if self._data.tested:
                numbers |= {f"test/{number}/{name}": value for name, value in self._tested(task, model).items()}
        return RecordDict({NUMBERS: MetricRecord(numbers)})

    def _task(self) -> Task:
        charge = self._charge
        return task_of(self._data.with_classes(charge.classes), self._recipe, charge.client, charge.clients,
                       self._device)

    def _model(self, task: Task, name: str) -> ModelState:
        model, frozen = model_in(self._content, name, task.fresh, task.frozen)
        with torch.no_grad():
            for at, v in task.frozen.items():
                v.copy_(frozen[at])
        return ModelState(self._placed(model.params), self._placed(model.buffers))

    def _placed(self, tree: Tree) -> Any:
        """What came by message or from a file, on this node's device."""
        return tree_map(lambda v: v.to(self._device), tree)

    @property
    def _memory(self) -> NodeMemory:
        return NodeMemory(self._settings.memory, self._charge.run)

    def _remembered(self, task: Task, model: ModelState, version: Version | None) -> tuple[Tree, Version | None]:
        """What this client remembers, and of which version that is; as before its first round where it is lost."""
        first = task.client.keep(model)
        row = None if version is None else self._memory.get(version, first)
        return (first, None) if row is None else (self._placed(row), version)

    def _entered(self, task: Task, model: ModelState, row: Tree) -> ModelState:
        return task.client.enter(model, row) if task.client.enters else model

    def _tested(self, task: Task, model: ModelState) -> dict[str, float]:
        """Loss and measures on this client's own test examples."""
        scores = evaluate(task, model)
        return {"loss": scores.loss, **scores.measures}


def settings_of(context: Any) -> NodeSettings:
    """From the file that a node's configuration names."""
    path = context.node_config.get("settings")
    if not isinstance(path, str):
        raise AskewError("this node has no settings; start it with --node-config 'settings=\"/path/node.toml\"'")
    try:
        return NodeSettings.read(path)
    except AskewError as error:
        raise AskewError(f"settings: {first_line(error)}") from None
