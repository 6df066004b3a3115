"""A recipe as the server of a deployment has it: the clients' sizes, and no example of theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from askew.core import registry
from askew.core.columns import Columns
from askew.core.compat import tree_map
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.core.tensors import Tree
from askew.data.schema import schema_text
from askew.engine.build import build_task, draw_population
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import train_job
from askew.engine.task import Task
from askew.flower.node_data import OTHERS, for_one_place, inputs_print, read_alike, with_classes
from askew.flower.roster import ALIKE, Roster
from askew.flower.settings import ServerSettings
from askew.rounds.single_updates import needs_single_updates

RECIPES_OWN = "recipe"  # of the setting `data`
OF_CLIENTS = ("validation", "hold_out")  # combinators that clients and the server see to themselves
OF_PARTS = (*OF_CLIENTS, "share", "shuffle", "subset")  # those that say which examples are whose


@dataclass(frozen=True)
class Holdings:
    """What the server has itself.

    Args:
        data: of the form that the nodes report.
        train: its own training examples, of which server pieces make use; places in `data.train`.
        tested: whether `data.test` is a test set.
        test: whose test examples which are, where that is known.
    """

    data: Dataset
    train: np.ndarray
    tested: bool
    test: Ownership | None = None


def check_recipe(recipe: Recipe, parts: bool = False) -> None:
    """Refuse what makes no sense with real clients, before any of them is asked for anything.

    Args:
        parts: whether clients are those of the recipe's own federation, to try it out.
    """
    for spec in recipe.population.combinators:
        if spec.name not in (OF_PARTS if parts else OF_CLIENTS):
            raise AskewError(f"population: {spec.name} deals out examples, or changes them, in one place; real clients "
                             "have their own, and none are sent to them: leave it out of a recipe that is deployed")
    if recipe.adversity:
        raise AskewError(f"adversity: {recipe.adversity[0].name} simulates what real clients do by themselves; leave "
                         "it out of a recipe that is deployed")
    if recipe.stop_after_no_gain:
        raise AskewError("stop_after_no_gain: the server of a deployment has no held-out examples of the clients'; set "
                         "it to 0")
    for spec in recipe.preprocess:
        try:
            registry.build("preprocess", spec)
        except AskewError as error:
            raise AskewError(f"preprocess: {spec.name} measures the data, which no one place has in a deployment "
                             f"({first_line(error)}); write its numbers into the recipe, or have askew deploy init "
                             "do so") from None


@dataclass(frozen=True)
class ServerTask:
    """What a server has to know of a recipe and its clients.

    Args:
        form: of what a client sends: names, shapes and types.
        tested: whether there is a test set here.
        schema: how clients' tables become inputs, in JSON.
    """

    task: Task
    form: Tree
    tested: bool
    schema: str


def build(recipe: Recipe, roster: Roster, settings: ServerSettings, schema: Columns | None = None) -> ServerTask:
    """A recipe made concrete without a client's example.

    What the recipe's checks want to look at is a stand-in of `OTHERS` examples per client; the sizes by which clients
    count are those that they report.
    """
    holdings = _holdings(recipe, roster, settings, schema)
    clients, places = len(roster.members), np.arange(OTHERS)
    labels = holdings.data.labels_of(holdings.data.train)
    scored = all(member.validation for member in roster.members)
    small = Population.of(Ownership.of([places] * clients), labels, holdings.data.num_classes, server=holdings.train,
                          validation=Ownership.of([places[:0]] * clients) if scored else None)
    task = build_task(for_one_place(recipe), data=holdings.data, population=small, device=settings.device)
    if settings.secure_aggregation and (reason := needs_single_updates(task)):
        raise AskewError(f"secure-aggregation: {reason}, and secure aggregation lets the server see sums over clients "
                         "alone; take another recipe, or set it to false")
    form = _form(task)
    sizes = [member.examples for member in roster.members]
    counts = roster.counts
    population = Population(_ranges(sizes), np.array(sizes)[:, None] if counts is None else counts,
                            scheme=f"deployment of {clients} clients", seed=recipe.seed, server=holdings.train,
                            test=holdings.test,
                            validation=_ranges([member.validation for member in roster.members]) if scored else None)
    task = replace(task, recipe=recipe, population=population, drawn=population)
    task.__dict__["client_names"] = roster.names  # the property would look for them in the clients' examples
    return ServerTask(task, form, holdings.tested, "" if schema is None else schema_text(schema))


def _form(task: Task) -> Tree:
    """What a client sends, found out by letting one train on stand-ins."""
    shared = {0: task.server.broadcast(task.server.init(task.fresh.params))} if task.server.broadcasts else {}
    job = Job(0, 0)
    with torch.random.fork_rng(devices=[]):  # local training seeds the global generator
        chunk = train_job(Lane(task, {0: task.fresh}, [job], 0, shared), job, task.module)
    return tree_map(lambda v: v[0], dict(chunk.message))


def _ranges(sizes: list[int]) -> Ownership:
    """Clients of these sizes; nobody looks at which examples they are."""
    return Ownership(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def _holdings(recipe: Recipe, roster: Roster, settings: ServerSettings, schema: Columns | None) -> Holdings:
    first = roster.members[0]
    kind = torch.int64 if first.targets in ("classes", "tokens") else torch.float32
    nothing = Examples(torch.zeros((OTHERS, *first.shape), dtype=getattr(torch, first.dtype)),
                       torch.zeros((OTHERS, *first.target_shape), dtype=kind))
    if not settings.data:
        if recipe.population.get("hold_out") is not None:
            raise AskewError("population: hold_out keeps examples at the server, and the server of this deployment has "
                             "none; name them (data = \"...\" under [tool.flwr.app.config]), or leave hold_out out")
        columns = schema if schema is not None and (len(schema.inputs),) == first.shape else None
        data = Dataset(recipe.data.name, nothing, nothing, roster.classes, targets=first.targets, columns=columns)
        return Holdings(data, np.zeros(0, np.int64), tested=False)
    owners = None
    if settings.data == RECIPES_OWN:
        data = registry.build("data", recipe.data)
        drawn = draw_population(recipe, data)
        indices = drawn.server
        # As the simulation judges it, so that the two can be compared.
        owners = drawn.test if drawn.num_clients == len(roster.members) else None
    else:
        data = read_alike(settings.data, schema)
        indices = np.arange(len(data.train))
    data = _alike(data, roster)
    at = torch.from_numpy(indices)
    train = Examples(torch.cat([data.train.x[at], nothing.x]), torch.cat([data.train.y[at], nothing.y]))
    held = Dataset(data.name, train, data.test, data.classes, targets=data.targets, columns=data.columns)
    return Holdings(held, np.arange(len(indices)), tested=True, test=owners)


def _alike(data: Dataset, roster: Roster) -> Dataset:
    """The server's data with the federation's classes, of which it may lack some; refused where they differ in form."""
    first = roster.members[0]
    if data.targets == first.targets == "classes" and set(data.classes) <= set(roster.classes):
        data = with_classes(data, roster.classes)
    have = (data.input_shape, str(data.train.x.dtype).removeprefix("torch."), data.targets, data.classes,
            inputs_print(data))
    want = (first.shape, first.dtype, first.targets, roster.classes, first.inputs)
    for name, a, b in zip(("inputs are", "inputs are of type", "targets are", "classes are"), have, want, strict=False):
        if a != b:
            raise AskewError(f"data: the server's {name} {a}, and the clients' {b}; give the server examples of the "
                             "same form, or none (data = \"\")")
    if have[-1] != want[-1]:
        raise AskewError(f"data: the columns of the server's table become other inputs than the clients' do; {ALIKE}, "
                         "or give the server no data (data = \"\")")
    return data
