"""Whether what a run's pieces keep between rounds can be kept in a checkpoint."""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.lasting import unreadable_type
from askew.rounds.simulation import Simulation


def check_lasting(simulation: Simulation) -> None:
    """Refuse a state that no checkpoint can hold, and name the piece; only its structure is walked."""
    state, task = simulation.state, simulation.task
    chains = [model["chain"] for model in state["models"].values()]
    parts = [(f"server {piece.name}", [chain[at] for chain in chains]) for at, piece in enumerate(task.server.pieces)]
    parts += [(f"probe {spec.name}", of_models) for spec, of_models in zip(task.recipe.probes, state["probes"],
                                                                         strict=True)]
    parts += [(f"pool {task.recipe.pool.name}", state["pool"])]
    for name, part in parts:
        if (kind := unreadable_type(part)) is not None:
            raise AskewError(f"{name} keeps a {kind} between rounds, which no checkpoint can hold; keep dicts, lists "
                             "and tuples of tensors, numbers and words, or run it without a folder")
