"""Which clients train in a round."""

from __future__ import annotations

from askew.core import rng
from askew.engine.task import Task


def sample(task: Task, round: int) -> list[int]:
    """The clients that train in a round, sorted; the cost does not grow with the population."""
    return rng.choose(rng.key(task.recipe.seed, "sample", round), task.num_clients, task.cohort_size).tolist()
