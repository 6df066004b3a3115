"""A node's own examples: read where they lie, described to the server in numbers, never sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import askew.partition
from askew.core import registry
from askew.core.arguments import check_fields
from askew.core.columns import Columns
from askew.core.dataset import Dataset, Examples, Source
from askew.core.errors import AskewError, shown
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.engine.build import build_task, draw_population
from askew.engine.task import Task
from askew.flower.settings import NodeSettings

OTHERS = 2  # examples that stand for those of a client elsewhere: enough for any check of a recipe


@dataclass(frozen=True)
class NodeData:
    """What a client has.

    Args:
        data: its training examples; its own test examples, or any where it has none.
        validation: further examples that it does not train on, for pools that score models.
        tested: whether it has test examples of its own.
    """

    data: Dataset
    validation: Examples | None = None
    tested: bool = True

    def __post_init__(self) -> None:
        check_fields(self)

    def with_classes(self, classes: Sequence[str]) -> NodeData:
        """With labels as positions in the federation's classes, of which this client may lack some."""
        validation = self.validation
        if validation is not None:
            validation = with_classes(replace(self.data, train=validation), classes).train
        return replace(self, data=with_classes(self.data, classes), validation=validation)


def with_classes(data: Dataset, classes: Sequence[str]) -> Dataset:
    """The same data with labels as positions in the federation's classes."""
    if data.targets != "classes" or tuple(classes) == data.classes:
        return data
    places = {name: place for place, name in enumerate(classes)}
    if unknown := [name for name in data.classes if name not in places]:
        raise AskewError(f"{data.name}: class {shown(unknown[0])} is none of the federation's; its examples were "
                         "others when the run began")
    table = torch.tensor([places[name] for name in data.classes])
    train, test = (Examples(examples.x, table[examples.y]) for examples in (data.train, data.test))
    return replace(data, classes=tuple(classes), train=train, test=test)


Load = Callable[[NodeSettings, Recipe], "NodeData | Dataset"]


def load(settings: NodeSettings, recipe: Recipe, function: Load | None = None,
         schema: Columns | None = None) -> NodeData:
    """A node's examples.

    Args:
        function: of the user's, in place of what the settings name.
        schema: as which a table's columns become inputs.
    """
    if function is not None:
        loaded = function(settings, recipe)
    elif settings.part >= 0:
        return _part(settings, recipe)
    elif settings.data:
        loaded = read_alike(settings.data, schema, settings.data_dir or None)
    else:
        raise AskewError("this node has no data: name them in its settings, data = \"table('visits.csv', "
                         "label='ill')\"")
    return _validated(loaded if isinstance(loaded, NodeData) else NodeData(loaded), recipe)


def read_alike(text: str, schema: Columns | None, data_dir: str | None = None) -> Dataset:
    """Data as settings name them; a table's columns become inputs as a schema says, unless its `like` names another."""
    spec = registry.parse("data", text)
    like = {} if schema is None or "like" in spec.args else {"like": schema}
    data: Dataset = registry.build("data", spec, data_dir=data_dir, **like)
    return data


def _validated(node: NodeData, recipe: Recipe) -> NodeData:
    """With some of the training examples kept back, where the recipe says that clients do so."""
    share = recipe.population.get("validation")
    if share is None or node.validation is not None:
        return node
    data, train = node.data, node.data.train
    alone = Population.of(Ownership.of([np.arange(len(train))]), data.labels_of(train), data.num_classes)
    parted = askew.partition.combine(alone, PopulationSpec(recipe.population.scheme, (share,)), Source.of(data),
                                     recipe.seed)
    assert parted.validation is not None
    kept, held = (torch.from_numpy(part[0]) for part in (parted.train, parted.validation))
    return replace(node, data=replace(data, train=Examples(train.x[kept], train.y[kept]), client_ids=None),
                   validation=Examples(train.x[held], train.y[held]))


def _part(settings: NodeSettings, recipe: Recipe) -> NodeData:
    """One client of the federation that the recipe itself describes."""
    data: Dataset = registry.build("data", recipe.data, data_dir=settings.data_dir or None)
    population = draw_population(recipe, data)
    if settings.part >= population.num_clients:
        raise AskewError(f"part: {settings.part} is beyond the {population.num_clients} clients of the recipe's "
                         "population")

    def chosen(examples: Examples, owned: Ownership | None) -> Examples | None:
        if owned is None or len(owned[settings.part]) == 0:
            return None
        at = torch.from_numpy(owned[settings.part])
        return Examples(examples.x[at], examples.y[at])

    train, test = chosen(data.train, population.train), chosen(data.test, population.test)
    assert train is not None, "no client of a population is empty"
    part = replace(data, train=train, test=test or Examples(train.x[:1], train.y[:1]), client_ids=None,
                  test_client_ids=None)
    return NodeData(part, chosen(data.train, population.validation), tested=test is not None)


def facts(node: NodeData, settings: NodeSettings) -> dict[str, Any]:
    """What the server is told of a node: sizes, form and names; how many of each class, if the node allows it."""
    data = node.data
    counts = np.bincount(data.labels_of(data.train), minlength=data.num_classes)
    return {"client": settings.client, "examples": len(data.train),
            "validation": 0 if node.validation is None else len(node.validation),
            "test": len(data.test) if node.tested else 0, "shape": list(data.input_shape),
            "dtype": str(data.train.x.dtype).removeprefix("torch."), "targets": data.targets,
            "target_shape": list(data.train.y.shape[1:]), "classes": list(data.classes), "inputs": inputs_print(data),
            "labels": counts.tolist() if settings.report_labels else []}


def inputs_print(data: Dataset) -> str:
    """A fingerprint of what a table's columns became: names of the inputs, and words of a vocabulary."""
    if data.columns is None:
        return ""
    known = [data.columns.inputs, data.columns.text.vocabulary if data.columns.text is not None else ()]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def task_of(node: NodeData, recipe: Recipe, client: int, clients: int, device: torch.device) -> Task:
    """The recipe as this client computes it: its own examples under its own number, and a stand-in for everybody else.

    The others have no part in what is computed here; with their number the recipe's checks are those of the whole.
    """
    data, validation = node.data, node.validation
    size = len(data.train)
    if validation is not None:
        data = replace(data, train=Examples(torch.cat([data.train.x, validation.x]),
                                            torch.cat([data.train.y, validation.y])), client_ids=None)
    elsewhere = np.arange(min(OTHERS, size))
    owned = Ownership.of([np.arange(size) if k == client else elsewhere for k in range(clients)])
    held = [np.arange(size, len(data.train)) if k == client else elsewhere[:0] for k in range(clients)]
    population = Population.of(owned, data.labels_of(data.train), data.num_classes, scheme=str(recipe.population),
                               seed=recipe.seed, validation=None if validation is None else Ownership.of(held),
                               server=np.zeros(1, np.int64))
    return build_task(for_one_place(recipe).replace(probes=()), data=data, population=population, device=device)


def for_one_place(recipe: Recipe) -> Recipe:
    """The recipe without what shares examples out: a deployment's lie where they lie."""
    return recipe.replace(population=PopulationSpec(recipe.population.scheme), stop_after_no_gain=0)
