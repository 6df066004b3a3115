"""The weights that round 1 begins with."""

from __future__ import annotations

from functools import partial

import numpy as np

from askew.core import registry
from askew.core.start import Start, StartContext
from askew.core.tensors import ModelState
from askew.engine.evaluate import score
from askew.engine.local import train_pooled
from askew.engine.task import Task


def initial_model(task: Task) -> ModelState:
    """What the start that the recipe names makes of the network's first weights."""
    start: Start = registry.build("start", task.recipe.start)
    return start.make(start_context(task))


def start_context(task: Task) -> StartContext:
    """What a start may know and do."""

    def train(model: ModelState, indices: np.ndarray, batch_size: int | None, number: int) -> ModelState:
        return train_pooled(task, model, indices, epochs=1, role="warm-up", number=number, batch_size=batch_size)

    return StartContext(task.recipe, task.data, task.population, task.objective, task.fresh, task.frozen, train,
                        partial(score, task))
