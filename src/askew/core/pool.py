"""Which global models exist and who trains which.

All methods but FedCD have one model that everybody trains. The server chain is written for one model; the loop maps
it over the pool, and clones a model's chain state with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from askew.core.arguments import check_fields
from askew.core.registry import Spec

PoolState = Any  # plain numbers, lists, dicts and tensors: a checkpoint holds it
MANY_CLIENTS = 10_000  # above this, records hold per-device numbers only where the recipe asks: they must not grow


@dataclass(frozen=True)
class Changes:
    """What a pool decided after a round: models to copy (parent, child) and models to forget."""

    clones: Sequence[tuple[int, int]] = ()
    deleted: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Pool:
    """A pool of global models, numbered; number 0 exists from the start.

    Args:
        init: number of clients -> state.
        trainers: (state, the round's clients) -> for each model, who of them trains it.
        scores: (state, model, clients) -> the scores by which these clients' updates of that model may be weighted.
        after_round: (state, accuracies, round, key) -> (state, changes). `accuracies`, [clients, models] as in `keeps`,
            are measured on the client's validation examples, and mean nothing for models that it does not keep; called
            only where `needs_validation`.
        choice: state -> the model each client would use now.
        keeps: state -> (numbers of the models that live, [clients, models] whether each client keeps each of them).
        metrics: (state, groups of the clients or None) -> numbers for the round's record.
        restore: state as a checkpoint has it, on any device or of an older version -> state.
        needs_validation: whether `after_round` wants validation accuracies.
        spec: how it was made, set by `@piece`.
    """

    init: Callable[[int], PoolState]
    trainers: Callable[[PoolState, Sequence[int]], Mapping[int, Sequence[int]]]
    scores: Callable[[PoolState, int, Sequence[int]], Sequence[float]]
    after_round: Callable[[PoolState, np.ndarray, int, Tensor], tuple[PoolState, Changes]]
    choice: Callable[[PoolState], Sequence[int] | np.ndarray]
    keeps: Callable[[PoolState], tuple[Sequence[int], np.ndarray]]
    metrics: Callable[[PoolState, np.ndarray | None], Mapping[str, Any]]
    restore: Callable[[PoolState], PoolState] = lambda state: state
    needs_validation: bool = False
    spec: Spec | None = None
