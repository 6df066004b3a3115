"""One client at a time: the reference engine, easy to read and to debug, and on CPUs the fast one for conv nets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from askew.core import rng
from askew.core.probe import ModelState
from askew.core.transform import Context, Params, Transform, subtract
from askew.engine.local import UPLOAD, train_locally
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.task import Task


class Sequential:
    """The reference engine."""

    name = "sequential"
    one_at_a_time = True
    batches_lanes = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        for i, lane in enumerate(lanes):
            for job in lane.jobs:
                yield i, train_job(lane.task, lane.task.module, lane.models[job.model], job, lane.round)


def train_job(task: Task, module: nn.Module, start: ModelState, job: Job, round: int, seeded: bool = True) -> Chunk:
    """One client's round: local training, then the upload.

    Args:
        module: the network to work in; its weights are overwritten.
        seeded: seed torch's generator for networks that draw by themselves.
    """
    recipe = task.recipe
    # The stream does not name the model: under FedCD all models see a client's batches in the same order.
    stream = rng.key(recipe.seed, "client", round, job.client).to(task.device)
    trained, loss = train_locally(
        module, start, task.data.train, task.indices_of(job.client), task.step, task.prepare,
        epochs=recipe.epochs, batch_size=recipe.batch_size, stream=stream, round=round, seeded=seeded,
    )
    u = upload(task.upload, subtract(trained.params, start.params), start.params, round, stream)
    return Chunk([job], {name: v[None] for name, v in u.items()}, {name: v[None] for name, v in trained.buffers.items()}, loss[None])


def upload(transform: Transform, u: Params, start: Params, round: int, stream: Tensor) -> Params:
    """What of a client's update reaches the server."""
    if not transform.parts:
        return u
    with torch.no_grad():
        ctx = Context(params=start, start=start, round=round, key=rng.fold(stream, UPLOAD))
        return transform.update(u, transform.init(start), ctx)[0]
