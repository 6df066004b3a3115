"""Whether what a run's pieces keep between rounds can be kept in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askew.core.errors import AskewError
from askew.core.lasting import unreadable_type
from askew.engine.task import Task


def check_lasting(task: Task, state: Mapping[str, Any]) -> None:
    """Refuse a simulation's state that no checkpoint can hold, and name the piece; only its structure is walked."""
    chains = [model["chain"] for model in state["models"].values()]
    parts = [(f"server {piece.name}", [chain[at] for chain in chains]) for at, piece in enumerate(task.server.pieces)]
    parts += [(f"probe {spec.name}", of_models) for spec, of_models in zip(task.recipe.probes, state["probes"],
                                                                         strict=True)]
    parts += [(f"pool {task.recipe.pool.name}", state["pool"])]
    for name, part in parts:
        if (kind := unreadable_type(part)) is not None:
            raise AskewError(f"{name} keeps a {kind} between rounds, which no checkpoint can hold; keep dicts, lists "
                             "and tuples of tensors, numbers and words, or run it without a folder")
