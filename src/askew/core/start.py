"""Where the weights of a run start from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from askew.core.dataset import Dataset
from askew.core.objective import Objective
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.core.tensors import ModelState


@dataclass(frozen=True)
class StartContext:
    """What a start may know and do.

    Args:
        fresh: the weights that the network was built with.
        frozen: the network's own weights that are not trained; a start may set them in place.
        train: one epoch at the server, with the clients' optimiser: (model, indices of training examples, batch size
            or None for the clients', number of the epoch) -> model.
        score: the objective's headline of a model on the test set.
    """

    recipe: Recipe
    data: Dataset
    population: Population
    objective: Objective
    fresh: ModelState
    frozen: Mapping[str, Tensor]
    train: Callable[[ModelState, np.ndarray, int | None, int], ModelState]
    score: Callable[[ModelState], float]


@dataclass(frozen=True)
class Start:
    """The weights that round 1 begins with.

    Args:
        make: what the run starts from.
        depends_on: for a start that takes long to make: all that it depends on. Runs for which that is equal, and
            which name the start in the same words, share one.
    """

    make: Callable[[StartContext], ModelState]
    depends_on: Callable[[StartContext], Hashable] | None = None
    spec: Spec | None = None
