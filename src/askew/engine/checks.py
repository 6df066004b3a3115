"""What would fail in the middle of a run is refused before it."""

from __future__ import annotations

import copy

import numpy as np
import torch

from askew.core.client_memory import ClientMemory
from askew.core.client_piece import Plan
from askew.core.errors import AskewError, first_line
from askew.core.tensors import num_bytes
from askew.engine.device import MEMORY_SHARE, device_memory
from askew.engine.layers.dropout import dropouts, set_keys
from askew.engine.task import Task


def check_task(task: Task) -> None:
    """One line about the first thing that would fail, or nothing."""
    plan = Plan(client=task.client.pieces, server=task.server.pieces, clients=task.num_clients,
                cohort_size=task.cohort_size, server_examples=len(task.population.server),
                scored=task.pool.needs_validation)
    task.client.check(plan)
    task.server.check(plan)
    _check_memory(task)
    _check_pool(task)
    _check_held_out(task)
    _check_output(task)
    _check_batches(task)


def _check_pool(task: Task) -> None:
    """A pool of several models scores them on examples that clients keep for it."""
    pool, objective = task.pool, task.objective
    if not pool.needs_validation:
        return
    name = pool.spec.name if pool.spec else "it"
    if task.population.validation is None:
        raise AskewError(f"pool: {name} scores models on validation data that the devices do not have; write "
                         'population = "... + validation(0.2)", or use a population with archetypes')
    if not objective.higher_is_better:
        raise AskewError(f"pool: {name} scores models by a measure of which more is better, and {objective.name} is "
                         f"judged by {objective.headline}; use single_model()")


def _check_memory(task: Task) -> None:
    """What clients remember, and statistics that keep all updates, must fit the device; refuse before round 1."""
    memory = ClientMemory(task.client.keep, task.fresh)
    rounds = task.recipe.rounds * task.cohort_size
    remembered = memory.bytes_per_client * min(task.num_clients, rounds) if memory else 0
    order = 8 * task.recipe.epochs * int(task.population.sizes.max())  # int64: which example comes when in a round
    kept = sum(statistic.keeps_all for statistic in task.server.needs) + bool(task.guards)
    stacked = kept * task.cohort_size * num_bytes(task.fresh.params)
    bound = MEMORY_SHARE * device_memory(task.device)
    if remembered > bound:
        raise AskewError(f"step: clients would remember {memory.bytes_per_client / 1e6:,.1f} MB each, "
                         f"{remembered / 1e9:,.1f} GB in all, and {task.device} can spare {bound / 1e9:,.1f}; take "
                         "fewer clients or rounds, or a smaller network")
    if order > bound:
        raise AskewError(f"epochs: {task.recipe.epochs:,} over {int(task.population.sizes.max()):,} examples make a "
                         f"client's round of {order / 8:,.0f} examples; take fewer epochs, and more rounds")
    if stacked > bound:
        other = "take a statistic that streams" + (", and no guard" if task.guards else "")
        raise AskewError(f"server: all updates of {task.cohort_size} clients would take {stacked / 1e9:,.1f} GB, and "
                         f"{task.device} can spare {bound / 1e9:,.1f}; let fewer clients train in a round, or {other}")


def _check_batches(task: Task) -> None:
    """BatchNorm over a batch of one value has no variance; refuse before training rather than in the middle of it."""
    sizes, batch = task.population.sizes, task.recipe.batch_size
    alone = np.flatnonzero((sizes % batch if batch else sizes) == 1) if batch != 1 else np.arange(1)
    if not len(alone):
        return
    module = copy.deepcopy(task.module)  # its statistics move
    set_keys(dropouts(module), torch.zeros((), dtype=torch.int64, device=task.device))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            module(task.prepare.apply(task.data.train.x[:1], None))
    except Exception as error:  # whatever a network raises
        which = (f"leaves client {alone[0]} with a batch of one example ({sizes[alone[0]]} in all)" if batch != 1
                 else "makes batches of one")
        raise AskewError(f"batch_size: {batch or 'all examples'} {which}, which the network cannot take: "
                         f"{first_line(error)}; choose another batch size") from None


def _check_held_out(task: Task) -> None:
    """What stops a run early must be judged on examples that clients do not train on."""
    population = task.population
    if not task.recipe.stop_after_no_gain:
        return
    if population.validation is not None:
        if np.isin(population.validation.indices, population.train.indices).any():
            raise AskewError("stop_after_no_gain (or --rank held-out): clients train on each other's validation "
                             "examples, which are then not held out; write + validation(0.1) before + share(...)")
        return
    if not len(population.server):
        raise AskewError("stop_after_no_gain (or --rank held-out): no training examples are held out to judge by; "
                         'write population = "... + validation(0.1)" (on each client), or "... + hold_out(0.05)" (at '
                         "the server)")
    if np.isin(population.server, population.train.indices).any():
        raise AskewError("stop_after_no_gain (or --rank held-out): clients train on the server's examples, too, which "
                         'are then not held out; write population = "... + validation(0.1)"')


def _check_output(task: Task) -> None:
    """One forward pass on two examples: the network must take the inputs and give what the objective takes."""
    x = task.prepare.apply(task.data.train.x[:2], None)
    try:
        with torch.no_grad():
            task.module.eval()
            output = task.module(x)
    except Exception as error:  # whatever a network raises
        raise AskewError("model: the network does not take inputs of shape "
                         f"{tuple(x.shape[1:])}: {first_line(error)}") from None
    finally:
        task.module.train()
    task.objective.check_output(output, task.data.train.y[:2], task.data)
