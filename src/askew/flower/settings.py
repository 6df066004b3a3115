"""What a server and a node are told beside the recipe: from the run's configuration, and from a file of the node's."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from askew.core import registry
from askew.core.arguments import check_fields
from askew.core.bounds import LARGEST, Bounds, Count, Positive
from askew.core.errors import AskewError, shown, suggest
from askew.core.files import MEGABYTE, read_text
from askew.core.recipe import read_toml
from askew.data.locate import below

T = TypeVar("T")


@dataclass(frozen=True)
class ServerSettings:
    """How a server runs a recipe; the keys of `[tool.flwr.app.config]`, with - for _.

    Args:
        recipe: the recipe's file, beside the app or by its whole path.
        schema: how nodes' tables become inputs, a file likewise; nothing: each node encodes its table by itself.
        out: the run folder, which has to be new, or that of the run to resume.
        resume: go on from the last checkpoint in `out`.
        clients: how many clients to wait for; 0: as many as are there when `wait` is over.
        min_clients: the fewest with which a run begins, and from which a round is made.
        wait: seconds for clients to appear before the first round.
        deadline: seconds for the replies of one round.
        poll: seconds between two looks for replies.
        longest: an update more than so many times as long as the median of its round is left out.
        data: the server's own examples, as a recipe names data: its test set judges, its training examples are those
            that a server piece trains on; "recipe" takes those of the recipe's own federation; nothing: clients judge.
        secure_aggregation: refuse a recipe for which the server must see single updates.
        device: of the server's own training and evaluation.
    """

    recipe: str = "recipe.toml"
    schema: str = ""
    out: str = ""
    resume: bool = False
    clients: Annotated[int, Bounds(0, LARGEST)] = 0
    min_clients: Count = 2
    wait: Positive = 120.0
    deadline: Positive = 600.0
    poll: Positive = 0.2
    longest: Annotated[float, Bounds(1)] = 10.0
    data: str = ""
    secure_aggregation: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.out and not os.path.isabs(os.path.expanduser(self.out)):
            raise AskewError(f"out: {self.out!r} is not a whole path, and the server's process may run in any folder; "
                             "write it from / on")
        if not self.out:
            raise AskewError("out: no run folder is named; write out = \"...\" under [tool.flwr.app.config], or "
                             "--run-config 'out=\"...\"'")
        if self.clients and self.clients < self.min_clients:
            raise AskewError(f"clients: {self.clients} are fewer than min-clients, {self.min_clients}; wait for as "
                             "many")


@dataclass(frozen=True)
class NodeSettings:
    """What a node says of itself; a TOML file on its machine, whose path `--node-config 'settings="..."'` gives.

    Paths in it that are not whole are below the file's folder.

    Args:
        client: its name in the federation. Clients are numbered by their names, and a node that comes back is known by
            its name.
        data: its examples, as a recipe names data: `table('visits.csv', label='ill')`, `image_folder('scans')`, ...
        part: instead, the client of this number in the recipe's own federation, to try things out.
        report_labels: whether the server may know how many examples of each class there are here.
        memory: folder for what this client remembers between rounds.
        data_dir: where data sets are that have names of their own.
        device: on which this client trains and judges: "cpu", "cuda", "cuda:1", ...
    """

    client: str
    data: str = ""
    part: Annotated[int, Bounds(-1, LARGEST)] = -1
    report_labels: bool = False
    memory: str = ""
    data_dir: str = ""
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.client or not self.client.isprintable() or len(self.client) > 100:
            raise AskewError(f"client: {shown(self.client)} is no name; write one line of at most 100 characters")

    @classmethod
    def read(cls, path: str | Path) -> NodeSettings:
        """From a node's file."""
        path = Path(path).expanduser()
        settings = _of_keys(cls, str(path), read_toml(read_text(path, "node's settings", MEGABYTE), str(path)))
        folder = path.absolute().parent
        data = str(below(folder, registry.parse("data", settings.data))) if settings.data else ""
        return dataclasses.replace(
            settings, data=data, memory=os.path.join(folder, os.path.expanduser(settings.memory or "memory")),
            data_dir=os.path.join(folder, os.path.expanduser(settings.data_dir)) if settings.data_dir else "")


def server_settings(config: Mapping[str, Any]) -> ServerSettings:
    """From a run's configuration."""
    return _of_keys(ServerSettings, "the run's configuration", config)


def _of_keys(cls: type[T], where: str, values: Mapping[str, Any]) -> T:
    """A dataclass from keys with - for _."""
    names = [field.name.replace("_", "-") for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if odd := [key for key in values if key not in names]:
        raise AskewError(f"{where}: unknown key {shown(odd[0])}; {suggest(odd[0], names)}")
    try:
        return cls(**{key.replace("-", "_"): value for key, value in values.items()})
    except TypeError:
        missing = [field.name for field in dataclasses.fields(cls)  # type: ignore[arg-type]
                   if field.default is dataclasses.MISSING and field.name not in values]
        raise AskewError(f"{where}: {missing[0]} is missing; write {missing[0]} = ...") from None
    except AskewError as error:
        raise AskewError(f"{where}: {error}") from None
