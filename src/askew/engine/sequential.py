"""One client at a time: the reference engine, easy to read and to debug, and on CPUs the fast one for conv nets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from askew.core import rng
from askew.core.client_piece import Message
from askew.core.compat import tree_map
from askew.core.tensors import subtract
from askew.engine.local import UPLOAD, train_locally
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.shortage import fitting
from askew.engine.task import Task


class Sequential:
    """The reference engine."""

    name = "sequential"
    one_at_a_time = True
    batches_lanes = False
    peers = None

    def __init__(self, task: Task) -> None:
        self.task = task

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        for i, lane in enumerate(lanes):
            for job in lane.jobs:
                with fitting(f"engine sequential: client {job.client} alone", lane.task):
                    chunk = train_job(lane, job, lane.task.module)
                yield i, chunk


def train_job(lane: Lane, job: Job, module: nn.Module, seeded: bool = True) -> Chunk:
    """One client's round: begin, local training, end.

    Args:
        module: the network to work in; its weights are overwritten.
        seeded: seed torch's generator for networks that draw by themselves.
    """
    task, recipe, chain = lane.task, lane.task.recipe, lane.task.client
    start = lane.models[job.model]
    kept = lane.memory.row(job.model, job.client) if lane.memory else chain.keep(start)
    if chain.enters:
        start = chain.enter(start, kept)
    # The stream does not name the model: under FedCD all models see a client's batches in the same order.
    stream = rng.key(recipe.seed, "client", lane.round, job.client).to(task.device)
    trained = train_locally(
        module, start, task.examples, task.indices_of(job.client), chain, task.prepare, task.objective,
        epochs=recipe.epochs, batch_size=recipe.batch_size, stream=stream, round=lane.round, client=job.client,
        kept=kept, shared=lane.shared.get(job.model), seeded=seeded,
    )
    message: Message = {"update": subtract(trained.model.params, start.params), "buffers": trained.model.buffers}
    if chain.ends:
        with torch.no_grad():
            ctx = replace(trained.ctx, step=trained.ctx.steps, make_key=partial(rng.fold, stream, UPLOAD))
            try:
                message, kept = chain.end(message, trained.state, kept, ctx)
            except Exception as error:  # a piece may raise anything: say where
                error.add_note(f"askew: client {job.client}, round {lane.round + 1}, at the end of its round")
                raise
    return Chunk([job], tree_map(lambda v: v[None], message), trained.loss[None], tree_map(lambda v: v[None], kept))
