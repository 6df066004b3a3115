"""`model.json`: what one needs to use a run's weights without its data; written at its end, read by `askew.load`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from askew.core.arguments import check_fields
from askew.core.bounds import Bounds
from askew.core.columns import Columns, of_fields
from askew.core.errors import AskewError, shown
from askew.core.files import read_json, write_json
from askew.core.literals import plain
from askew.core.pool import MANY_CLIENTS
from askew.core.registry import Spec
from askew.core.targets import Targets
from askew.rounds.simulation import Simulation
from askew.runs.environment import version_of
from askew.runs.run_folder import MODEL, RunFolder

FORMAT = 1
PERSONAL = "personal"
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32", "float64")
_NUMBER, _FILE = re.compile(r"[0-9]{1,12}"), re.compile(r"model(-[0-9]{1,12})?\.safetensors")
LARGEST_INPUT = 2**28  # numbers in one example


@dataclass(frozen=True)
class About:
    """A trained model, but for its weights.

    Args:
        network: as a recipe writes it; None where it is the user's own.
        network_class: the name of its class.
        input_shape, input_dtype: of one example as the data store it.
        divide_by: bytes are divided by that first.
        preprocess: the steps after that, each with its name and all numbers that it takes.
        objective: what was minimised.
        targets: what is predicted.
        classes: names of the classes, numbers, labels or tokens.
        table: how rows of a table become inputs, if the data were one.
        clients: their names; left out where there are very many that all use one model.
        models: number of a model -> its file of weights; the first is the one that most clients use.
        choice: the number of the model that each client uses, where there are several.
        personal: names of tensors that each client has for itself.
        data, recipe, fingerprint, rounds: where it comes from.
        askew: the version that trained it.
        format: of this file.
    """

    network: str | None
    network_class: str
    input_shape: tuple[Annotated[int, Bounds(0, LARGEST_INPUT)], ...]
    input_dtype: str
    divide_by: float | None
    preprocess: tuple[Spec, ...]
    objective: str
    targets: Targets
    classes: tuple[str, ...]
    table: Columns | None
    clients: tuple[str, ...] | None
    models: Mapping[str, str]
    choice: tuple[int, ...] | None
    personal: tuple[str, ...] | None
    data: str
    recipe: str
    fingerprint: str
    rounds: int
    askew: str
    format: int = FORMAT

    def __post_init__(self) -> None:
        check_fields(self)
        if math.prod(self.input_shape) > LARGEST_INPUT:
            raise AskewError(f"inputs of shape {list(self.input_shape)} are too large")
        if self.input_dtype not in DTYPES:
            raise AskewError(f"input_dtype {shown(self.input_dtype)} is none of {', '.join(DTYPES)}")
        if self.table is not None and self.input_shape != (len(self.table.inputs),):
            raise AskewError(f"a table of {len(self.table.inputs)} inputs for inputs of shape {list(self.input_shape)}")
        if not self.models or not all(_NUMBER.fullmatch(number) and _FILE.fullmatch(file)
                                      for number, file in self.models.items()):
            raise AskewError(f"models must name files of weights by number, not {shown(self.models)}")
        if self.choice is not None and not {str(number) for number in self.choice} <= set(self.models):
            raise AskewError("choice names a model that is not there")
        for name, given in (("choice", self.choice), ("personal", self.personal)):
            if given is not None and self.clients is None:
                raise AskewError(f"{name} without names of clients")
        if self.choice is not None and self.clients is not None and len(self.choice) != len(self.clients):
            raise AskewError(f"{len(self.choice)} choices of {len(self.clients)} clients")

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.input_dtype)
        return dtype

    def as_mapping(self) -> dict[str, Any]:
        """For the file: the format first."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        steps = [{"name": step.name, "arguments": {name: str(value) if isinstance(value, Spec) else plain(value)
                                                  for name, value in step.args.items()}}
                 for step in self.preprocess]
        return {"format": values.pop("format"), **values, "preprocess": steps, "models": dict(self.models),
                "table": None if self.table is None else self.table.as_mapping()}

    @classmethod
    def from_mapping(cls, value: Any) -> About:
        """From what `as_mapping` gave."""
        args = of_fields(cls, "model", value)
        steps, table = args["preprocess"], args["table"]
        if not isinstance(steps, list) or not all(isinstance(step, dict) and step.keys() == {"name", "arguments"}
                                                  for step in steps):
            raise AskewError(f"preprocess must be a list of steps, each with name and arguments, not {shown(steps)}")
        return cls(**{**args, "table": None if table is None else Columns.from_mapping(table),
                      "preprocess": tuple(Spec(step["name"], step["arguments"]) for step in steps)})


def read_about(path: Path) -> About:
    """A run's `model.json`; one of a newer version, or a damaged one, is refused."""
    content = read_json(path, "description of a model")
    version = content.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise AskewError(f"{str(path)!r} was written by a newer version of askew (format {version}, known: {FORMAT}); "
                         "use that one")
    try:
        return About.from_mapping(content)
    except AskewError as error:
        raise AskewError(f"{str(path)!r} is damaged: {error}") from None


def write_model(simulation: Simulation, folder: RunFolder, files: Mapping[int, str]) -> None:
    """Write `model.json` beside the weights, and what clients keep for themselves.

    Args:
        files: number of a model -> its file, the one that most clients use first.
    """
    personal = _personal(simulation)
    if personal:
        folder.save_weights(PERSONAL, personal)
    write_json(folder.path / MODEL, _describe(simulation, folder, files, tuple(personal)).as_mapping())


def _describe(simulation: Simulation, folder: RunFolder, files: Mapping[int, str], personal: tuple[str, ...]) -> About:
    task = simulation.task
    data, recipe, choice = task.data, task.recipe, None
    if len(files) > 1:
        choice = tuple(int(number) for number in task.pool.choice(simulation.pool_state))
    named = choice is not None or personal or task.num_clients <= MANY_CLIENTS
    stored = data.train.x.dtype
    return About(
        network=None if "model" in folder.environment.get("replaced", {}) else str(recipe.model),
        network_class=type(task.module).__name__, input_shape=data.input_shape,
        input_dtype=str(stored).removeprefix("torch."), divide_by=255.0 if stored == torch.uint8 else None,
        preprocess=tuple(step.spec.with_args(**step.measured) for step in task.steps if step.spec is not None),
        objective=str(recipe.objective), targets=data.targets, classes=data.classes, table=data.columns,
        clients=tuple(task.client_names) if named else None,
        models={str(number): file for number, file in files.items()}, choice=choice, personal=personal or None,
        data=data.name, recipe=recipe.name, fingerprint=recipe.fingerprint, rounds=simulation.round,
        askew=version_of("askew"))


def _personal(simulation: Simulation) -> dict[str, Tensor]:
    """Tensors that stay with their clients, one row per client: of the model that each uses."""
    task = simulation.task
    if not task.client.enters or not simulation.memory:  # they have none, or keep it where nobody else sees it
        return {}
    rows: list[dict[str, Tensor]] = []
    for client, number in enumerate(task.pool.choice(simulation.pool_state)):
        shared = simulation.view(number)
        entered = task.client.enter(shared, simulation.memory.row(number, client))
        before, after = {**shared.params, **shared.buffers}, {**entered.params, **entered.buffers}
        rows.append({name: v for name, v in after.items() if v is not before[name]})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
