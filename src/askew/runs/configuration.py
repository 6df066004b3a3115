"""What the driver is asked for: which runs, and with what they are trained."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from askew.core import registry
from askew.core.compat import BatchNorm
from askew.core.dataset import Dataset
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.engine.task import Task
from askew.rounds.record import Record
from askew.runs.pace import Every
from askew.runs.result import Result

OnRound = Callable[[int, Record, Recipe], None]
OnEnd = Callable[[int, Result], None]


@dataclass(frozen=True)
class Configuration:
    """One run to do.

    Args:
        recipe: what to do.
        path: its run folder; nothing is written without one.
        go_on: from what the folder holds: what finished, diverged or failed is not trained again, what was interrupted
            goes on from its checkpoint; where there is none, what askew wrote there is replaced.
        overwrite: replace a run that the folder holds.
        retry: what failed goes on from its checkpoint, too.
        wave: all configurations of a wave are over before one of the next begins.
        siblings: configurations of its shape in all, where some of them are trained elsewhere: "auto" takes the engine
            that suits them all.
    """

    recipe: Recipe
    path: Path | None = None
    go_on: bool = False
    overwrite: bool = False
    retry: bool = False
    wave: int = 0
    siblings: int = 0


@dataclass(frozen=True)
class Means:
    """With what configurations are trained.

    Args:
        engine: "auto", or one of `askew.engine.choice.ENGINES`. A run that is resumed keeps its engine under "auto".
        precision: of the vectorised engine on a GPU; a run that is resumed keeps its own.
        data, population, model: objects in place of what recipes name.
        as_alone: whether "auto" takes for each configuration the engine that it would have alone, for the same bits;
            else it takes the one that suits as many of a shape as there are.
        checkpoint_every: how often runs with a folder are saved.
    """

    engine: str = "auto"
    precision: str = "fp32"
    device: str = "cpu"
    data_dir: str | None = None
    data: Dataset | None = None
    population: Population | None = None
    model: nn.Module | None = None
    as_alone: bool = False
    checkpoint_every: Every = field(default_factory=Every)

    @property
    def replaced(self) -> dict[str, str]:
        """What stands in place of what recipes name: the data's name, and of which type others are."""
        objects = {"data": self.data, "population": self.population, "model": self.model}
        return {name: value.name if isinstance(value, Dataset) else type(value).__name__
                for name, value in objects.items() if value is not None}


def shape_of(recipe: Recipe) -> str:
    """What must be equal for recipes to train together; numbers in the local step may differ.

    Example:
        >>> one, other = Recipe(client="sgd(lr=0.1)"), Recipe(client="sgd(lr=0.5)", server="momentum()", seed=3)
        >>> shape_of(one) == shape_of(other)
        True
    """
    client = [registry.without_numbers(spec) for spec in recipe.client]
    return repr((recipe.data, recipe.preprocess, recipe.model, recipe.epochs, recipe.batch_size, client,
                 recipe.objective))


def untrained(task: Task) -> str:
    """A fingerprint of what all clients of the network share and do not train: frozen weights, buffers (but
    BatchNorm's), examples with wrong labels and noise on inputs."""
    digest = hashlib.blake2b(digest_size=16)
    statistics = {f"{path}.{name}" if path else name for path, layer in task.module.named_modules()
                  if isinstance(layer, BatchNorm) for name, _ in layer.named_buffers(recurse=False)}
    shared = {**task.frozen, **{name: b for name, b in task.fresh.buffers.items() if name not in statistics}}
    if shared:
        digest.update(str(task.recipe.start).encode())  # a file may bring others
    for name, v in shared.items():
        digest.update(name.encode() + v.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    for wrong in (task.examples.x[len(task.data.train) :], task.examples.y[len(task.data.train) :]):
        digest.update(wrong.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    population = task.population
    if population.noise is not None:  # inputs of its own, by which who has which level, and the draw
        for array in (population.noise, population.train.indices, population.train.offsets):
            digest.update(array.tobytes())
        digest.update(repr((population.seed, population.noise_mixed)).encode())
    return digest.hexdigest()
