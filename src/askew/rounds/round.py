"""One round of federated learning. Read this first.

    server's models -> clients' rounds (begin, local steps, end) -> messages
        -> statistics -> server's update -> server's models

`begin` says who trains what; an engine trains it (askew.engine: one client after the other, in threads, or all at once,
with the same result); `Gathering.add` streams what comes back into statistics, past a guard where there is one
(`let_in`); `aggregate` runs the server's pieces on them. Neither learns an algorithm's name: what a method does stands
in its pieces (askew.pieces).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import torch

from askew.core import rng
from askew.core.client_memory import ClientMemory
from askew.core.pool import PoolState
from askew.core.probe import ProbeContext
from askew.core.server_piece import ServerContext
from askew.core.tensors import ModelState, Params, add
from askew.engine.local import train_pooled
from askew.engine.protocol import Engine, Job
from askew.engine.sample import sample
from askew.engine.schedule import on_device
from askew.engine.task import Task
from askew.rounds.gather import Gathering, GlobalModel
from askew.rounds.guarded import let_in
from askew.rounds.shared import share
from askew.rounds.together import aggregate_together


def one_round(gatherings: Sequence[Gathering], engine: Engine) -> list[dict[int, GlobalModel]]:
    """Train what the rounds of one or several configurations have to train, and make new models of it."""
    made: dict[int, dict[int, GlobalModel]] = {}
    trained = engine.train([gathering.lane for gathering in gatherings])
    for lane, chunk in trained:
        chunks = dict([(lane, chunk), *islice(trained, chunk.together - 1)])  # they lie in memory at the same time
        together = aggregate_together(gatherings, chunks)
        made |= together
        for i in (i for i in chunks if i not in together):
            gatherings[i].add(chunks[i])
    peers = engine.peers
    let_in(gatherings, peers)
    if peers is not None:  # each process has its own clients' messages
        for gathering in gatherings:
            share(gathering, peers)
    return [made[i] if i in made else aggregate(gathering) for i, gathering in enumerate(gatherings)]


def begin(task: Task, probe_context: ProbeContext, round: int, models: Mapping[int, GlobalModel], pool_state: PoolState,
          memory: ClientMemory) -> Gathering:
    """Who trains which model: some of the clients, drawn by (seed, round), and for each of them what its pool says."""
    clients = sample(task, round)
    trainers = task.pool.trainers(pool_state, clients)
    jobs = [Job(int(number), int(client)) for number, users in trainers.items() for client in users]
    return Gathering(task, probe_context, round, models, pool_state, clients, jobs, memory)


def aggregate(gathering: Gathering) -> dict[int, GlobalModel]:
    """The models that the server makes of what the clients sent; waits for no device and changes nothing.

    A model of which nobody has sent anything stays as it is.
    """
    return {number: _aggregate(gathering, number) for number in gathering.cohorts}


def _aggregate(gathering: Gathering, number: int) -> GlobalModel:
    """The server's pieces on one model; buffers are averaged beside it."""
    task, round, entry, cohort = gathering.task, gathering.round, gathering.entries[number], gathering.cohorts[number]
    buffers = cohort.buffers

    def train(params: Params, epochs: int) -> Params:
        nonlocal buffers
        with torch.enable_grad():
            trained = train_pooled(task, ModelState(params, buffers), task.population.server, epochs=epochs,
                                   role=f"server/{number}", number=round, round=round)
        buffers = trained.buffers
        return trained.params

    with torch.no_grad():
        key = on_device(rng.key(task.recipe.seed, "server", round, number), task.device)
        ctx = ServerContext(entry.model.params, round, task.num_clients, key, cohort, train)
        u, state = task.server.update({}, entry.chain, ctx)
        return GlobalModel(ModelState(add(entry.model.params, u), buffers), state)
