"""What server and nodes say to each other: three kinds of message, and what each holds.

    hello   server: the recipe                        node: what it has, in numbers (`node_data.facts`)
    train   server: a model, what it sends beside it  node: the client's message, its loss, what it thinks of the model
    judge   server: models                            node: how good each is on its validation and test examples
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from askew.core.errors import AskewError
from askew.core.tensors import ModelState, Tree
from askew.flower.library import ConfigRecord, MetricRecord, RecordDict
from askew.flower.node_memory import Version, as_text, from_text
from askew.flower.wire import record_of, tree_of

HELLO, TRAIN, JUDGE = "query.hello", "train.askew", "evaluate.askew"  # Flower's kinds, and our names for actions
FORMAT = 2  # of messages; raised when a node of an earlier version would misread them
ABOUT, NUMBERS = "askew", "numbers"


@dataclass(frozen=True)
class Charge:
    """What stands in every message to a client.

    Args:
        run: names the run, also when it is resumed: what clients remember is filed under it.
        recipe: in TOML.
        schema: how clients' tables become inputs, in JSON; empty: each encodes its table by itself.
        client: the number that the server has given this client.
        clients: how many there are.
        classes: the federation's.
        round: rounds completed before this one.
    """

    run: str
    recipe: str
    schema: str = ""
    client: int = 0
    clients: int = 1
    classes: tuple[str, ...] = ()
    round: int = 0

    def record(self, **more: Any) -> Any:
        return ConfigRecord({"format": FORMAT, **vars(self), "classes": list(self.classes), **more})

    @classmethod
    def of(cls, record: Any) -> Charge:
        if record.get("format") != FORMAT:
            raise AskewError(f"the server speaks format {record.get('format')}, and this node {FORMAT}; install the "
                             "same version of askew on both")
        return cls(record["run"], record["recipe"], record["schema"], int(record["client"]), int(record["clients"]),
                   tuple(record["classes"]), int(record["round"]))


def train_content(charge: Charge, number: int, model: ModelState, frozen: Tree, shared: Tree, start: Version | None,
                  keep: Sequence[Version]) -> Any:
    """To a client that is to train a model.

    Args:
        start: the version of its memory that it starts from; None: as before its first round.
        keep: further versions that it must not forget.
    """
    return RecordDict({ABOUT: charge.record(model=number, start=as_text([start] if start else []), keep=as_text(keep)),
                       "model": record_of(_tree(model, frozen)), "shared": record_of(dict(shared))})


def judge_content(charge: Charge, models: Mapping[int, ModelState], frozen: Tree,
                  versions: Mapping[int, Version]) -> Any:
    """To a client that is to judge models.

    Args:
        versions: number -> the version of its memory that goes with a model, where there is one.
    """
    known = {number: versions[number] for number in models if number in versions}
    return RecordDict({ABOUT: charge.record(models=list(models), known=list(known), versions=as_text(known.values())),
                       **{f"model {number}": record_of(_tree(model, frozen)) for number, model in models.items()}})


def model_in(content: Any, name: str, fresh: ModelState, frozen: Tree) -> tuple[ModelState, Tree]:
    """A model of a message, and the weights that nobody trains."""
    tree = tree_of(content[name], _tree(fresh, frozen))
    return ModelState(tree["params"], tree["buffers"]), tree["frozen"]


def versions_in(record: Any) -> dict[int, Version]:
    """What `judge_content` says of a client's memory."""
    return dict(zip(map(int, record["known"]), from_text(record["versions"]), strict=True))


def reply_content(message: Tree, loss: float, examples: int, start: Version | None,
                  received: Mapping[str, float]) -> Any:
    """From a client that has trained.

    Args:
        start: the version of its memory that it has started from.
        received: how good the model was that it had been sent, on its own test examples.
    """
    return RecordDict({ABOUT: ConfigRecord({"start": as_text([start] if start else [])}), "message": record_of(message),
                       NUMBERS: MetricRecord({"loss": loss, "examples": examples, **received})})


def _tree(model: ModelState, frozen: Tree) -> Tree:
    return {"params": model.params, "buffers": model.buffers, "frozen": dict(frozen)}
