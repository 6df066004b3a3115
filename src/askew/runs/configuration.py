"""What the driver is asked for: which runs, and with what they are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from askew.core import registry
from askew.core.dataset import Dataset
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.rounds.simulation import Record
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
    """

    recipe: Recipe
    path: Path | None = None
    go_on: bool = False
    overwrite: bool = False
    retry: bool = False
    wave: int = 0


@dataclass(frozen=True)
class Means:
    """With what configurations are trained.

    Args:
        engine: "auto", or one of `askew.engine.choice.ENGINES`. What is gone on with keeps its engine under "auto".
        precision: of the vectorised engine on a GPU; what is gone on with keeps its own.
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
