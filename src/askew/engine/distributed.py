"""Several processes, each with its own clients: one per GPU, or per socket of a CPU.

Client k trains in process k mod their number, in every round, so that what it remembers never travels. Within a process
another engine trains them. What the clients send is added up by rounds/shared.py; the server's pieces then do the same
in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from askew.core import interrupt
from askew.core.errors import AskewError
from askew.core.tensors import num_bytes
from askew.engine.device import MEMORY_SHARE, device_memory
from askew.engine.peers import Peers
from askew.engine.protocol import Chunk, Engine, Lane
from askew.engine.task import Task


class Distributed:
    """The engine of processes.

    Args:
        task: the run.
        inner: how the clients of this process are trained.
        peers: the other processes.
    """

    def __init__(self, task: Task, inner: Engine, peers: Peers) -> None:
        self.inner, self.peers = inner, peers
        # By its name a run can be resumed in one process; how many there were stands beside it.
        self.name, self.one_at_a_time, self.batches_lanes = inner.name, inner.one_at_a_time, inner.batches_lanes
        self.compiled = getattr(inner, "compiled", False)
        _check(task, peers)
        peers.use_gpus(task.device)

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        local = [replace(lane, jobs=[job for job in lane.jobs if self.peers.owns(job.client)]) for lane in lanes]
        busy = [i for i, lane in enumerate(local) if lane.jobs]
        for at, chunk in self.inner.train([local[i] for i in busy]) if busy else ():
            if interrupt.came():  # else a signal would wait for the end of the round
                raise KeyboardInterrupt
            yield busy[at], chunk


def _check(task: Task, peers: Peers) -> None:
    if peers.world > task.num_clients:
        raise AskewError(f"engine distributed: {peers.world} processes for {task.num_clients} clients: some would "
                         f"never have one; start at most {task.num_clients} (--nproc-per-node)")
    for probe in task.probes:
        if probe.observe is not None and probe.merge is None:
            name = probe.spec.name if probe.spec else "of your own"
            raise AskewError(f"probe {name}: it looks at each client's model, and has no `merge` for what several "
                             "processes have gathered; give it one, or take another engine")
    kept = sum(statistic.keeps_all for statistic in task.server.needs)
    stacked = kept * task.cohort_size * num_bytes(task.fresh.params) * peers.local_world
    bound = MEMORY_SHARE * device_memory(task.device)
    if stacked > bound:  # they travel to all processes, each of which needs them for its server
        raise AskewError(f"server: all updates of {task.cohort_size} clients in each of {peers.local_world} processes "
                         f"would take {stacked / 1e9:,.1f} GB, and {task.device} can spare {bound / 1e9:,.1f}; start "
                         "fewer processes, let fewer clients train in a round, or take a statistic that streams")
