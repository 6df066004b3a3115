"""Probes read a round and return numbers. They never change training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from askew.core.cohort import Cohort
from askew.core.dataset import Dataset
from askew.core.population import Population
from askew.core.registry import Spec
from askew.core.statistic import Statistic
from askew.core.tensors import ModelState


@dataclass(frozen=True)
class ProbeContext:
    """What stays the same over a run, as probes see it.

    Args:
        train: trains a model on examples pooled at one place, for as many steps as a client would take on its own
            share: (model, indices, batch size, round) -> model.
        predict: (model, inputs as stored) -> predicted classes.
    """

    module: nn.Module
    data: Dataset
    population: Population
    batch_size: int
    train: Callable[[ModelState, np.ndarray, int, int], ModelState]
    predict: Callable[[ModelState, Tensor], Tensor]


@dataclass(frozen=True)
class Round:
    """One model's round, as probes see it after the server's update.

    Args:
        before: the model the round began with.
        after: the model the next round begins with.
        cohort: statistics of the clients' updates.
        clients: who trained it, sorted: the order in which an engine finishes them shows nowhere.
        evaluated: the model to evaluate after it, another one where a server piece has a `view`; None: `after`.
    """

    number: int
    before: ModelState
    after: ModelState
    cohort: Cohort
    clients: Sequence[int]
    evaluated: ModelState | None = None


@dataclass(frozen=True)
class Probe:
    """A measurement.

    Args:
        read: (ctx, round, state, what `observe` gathered) -> (numbers by name, state).
        init: ctx -> state before the first round.
        needs: cohort statistics to gather.
        observe: called with each client's trained model as it arrives, (ctx, model, gathered so far) -> gathered;
            a statistic that streams, never the models themselves.
        merge: what two processes have gathered as one, each of its own clients; without it, a probe that observes
            cannot be used with several processes.
        spec: how it was made, set by `@piece`.
    """

    read: Callable[[ProbeContext, Round, Any, Any], tuple[Mapping[str, Any], Any]]
    init: Callable[[ProbeContext], Any] = lambda ctx: None
    needs: Sequence[Statistic] = ()
    observe: Callable[[ProbeContext, ModelState, Any], Any] | None = None
    merge: Callable[[Any, Any], Any] | None = None
    spec: Spec | None = None
