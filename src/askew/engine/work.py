"""A chunk of J jobs before and after its local steps, stacked over its clients: everything [J, ...]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from askew.core.tensors import Params, Tree
from askew.engine.batched_chain import BatchedChain, Facts
from askew.engine.layout import Layout
from askew.engine.schedule import on_device


@dataclass(frozen=True)
class Work(Layout):
    """A chunk of jobs, ready to be trained."""

    start: Params  # [J, ...], or [1, ...] where all start from one model
    start_buffers: Params  # likewise
    chain: BatchedChain
    facts: Facts
    kept: Tree  # what the clients remember
    round: int

    def batch_sizes(self, batch_size: int) -> np.ndarray:
        """[J, T] real examples in each job's batches, 0 after its last: known without asking the device."""
        sizes, steps = np.asarray(self.sizes)[:, None], np.asarray(self.schedule.steps)[:, None]
        per_epoch = -(-sizes // batch_size) if batch_size else np.ones_like(sizes)
        t = np.arange(steps.max())
        size = batch_size or int(sizes.max())
        return np.where(t < steps, np.minimum(size, sizes - (t % per_epoch) * size), 0)

    def per_step(self, totals: Tensor) -> Tensor:
        """Sums over all local steps -> means per step."""
        steps = self.schedule.steps
        # Where all have as many, a plain number: no copy to the device.
        return totals / (steps[0] if len(set(steps)) == 1 else on_device(steps, totals.device))


@dataclass(frozen=True)
class TrainedWork:
    """The same chunk after its last local step.

    Args:
        losses: [J] mean local losses.
        squares: [J, tensors] squared lengths of the updates' tensors.
    """

    updates: Params
    buffers: Params
    state: Tree
    losses: Tensor
    squares: Tensor
