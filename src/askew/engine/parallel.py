"""Several clients side by side on a CPU, one thread each: for networks whose own operations fill a core but not two.

Every job in work has a copy of the network for itself, and shares the data. Results come in the order of the jobs, so
that the same seed gives the same bits whoever finishes first.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

import torch
from torch import nn

from askew.engine.batched import CannotBatch
from askew.engine.functional import call
from askew.engine.layers.dropout import dropouts, set_keys
from askew.engine.protocol import Chunk, Job, Lane
from askew.engine.sequential import train_job
from askew.engine.shortage import fitting
from askew.engine.task import Task
from askew.engine.threads import allowed_threads

INSTEAD = "engine sequential (one client at a time), "  # where memory runs out


class Parallel:
    """The engine of threads.

    Args:
        task: the run.
        threads: clients that train at the same time; by default as many as torch may use threads.
    """

    name = "parallel"
    one_at_a_time = False
    batches_lanes = False
    peers = None

    def __init__(self, task: Task, threads: int | None = None) -> None:
        if task.device.type != "cpu":
            raise CannotBatch("threads help on a CPU only")
        if _draws_by_itself(task):
            raise CannotBatch(f"{type(task.module).__name__} draws random numbers that threads would share")
        self.task = task
        self.threads = threads or allowed_threads()
        self._copies_of: Task | None = None
        self._spare: SimpleQueue[nn.Module] = SimpleQueue()
        self._workers = ThreadPoolExecutor(self.threads, thread_name_prefix="askew",
                                           initializer=torch.set_num_threads, initargs=(1,))

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        waiting: deque[tuple[int, Future[Chunk]]] = deque()
        try:
            for i, lane in enumerate(lanes):
                spare = self._copies(lane.task)
                for job in lane.jobs:
                    waiting.append((i, self._workers.submit(self._one, lane, job, spare)))
                    if len(waiting) > 2 * self.threads:  # as many results in memory as keep the threads busy
                        yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        finally:
            for _, future in waiting:
                future.cancel()

    def _copies(self, task: Task) -> SimpleQueue[nn.Module]:
        """A copy of the network for each thread, made by the caller's own.

        Between two chunks that one may evaluate, for which torch puts other weights into the network for a moment: a
        thread that copied it then would get those.
        """
        if self._copies_of is not task:
            self._copies_of, self._spare = task, SimpleQueue()
            with fitting(f"engine parallel: a network for each of {self.threads} threads", task, INSTEAD):
                for _ in range(self.threads):
                    self._spare.put(copy.deepcopy(task.module))
        return self._spare

    def _one(self, lane: Lane, job: Job, spare: SimpleQueue[nn.Module]) -> Chunk:
        module = spare.get()
        who = f"engine parallel: client {job.client}, beside up to {self.threads - 1} others,"
        try:
            with fitting(who, lane.task, INSTEAD):
                return train_job(lane, job, module, seeded=False)
        finally:
            spare.put(module)


def _finished(lane: int, future: Future[Chunk]) -> tuple[int, Chunk]:
    return lane, future.result()


def _draws_by_itself(task: Task) -> bool:
    """Whether the network gives other scores after another global seed: it calls torch's generator in its `forward`."""
    x = task.prepare.apply(task.data.train.x[:4], None)
    buffers = {name: b.clone() for name, b in task.module.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        scores = []
        for seed in (0, 1):
            set_keys(dropouts(task.module), torch.tensor(0))
            torch.default_generator.manual_seed(seed)  # threads are of a CPU alone
            scores.append(call(task.module, {n: b.clone() for n, b in buffers.items()}, (x.clone(),)))
    return not torch.equal(scores[0], scores[1])
