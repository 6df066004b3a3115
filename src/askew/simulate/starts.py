"""Where the weights of a run start from.

References:
    zhao2018, section 4.2 (warm-up on the shared set) and table 3 (pre-trained start).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from askew.core.errors import AskewError
from askew.core.probe import ModelState
from askew.core.registry import Spec, piece

if TYPE_CHECKING:
    from askew.simulate.task import Task


@dataclass(frozen=True)
class Start:
    """`make(task, fresh)` turns freshly initialised weights into those that round 1 begins with."""

    make: Callable[[Task, ModelState], ModelState]
    spec: Spec | None = None


@piece("start")
def random() -> Start:
    """The network's own random initialisation, drawn from the recipe's seed."""
    return Start(lambda task, fresh: fresh)


@piece("start")
def warm_up(until: float = 0.6, epochs: int = 100, on: Literal["server", "everyone"] = "server",
            batch_size: int | None = None) -> Start:
    """Train at the server before the first round, until a test accuracy or for a number of epochs.

    Args:
        until: stop when the test accuracy reaches this (zhao2018: about 0.6 on CIFAR-10); 1 trains all epochs.
        epochs: stop after so many at the latest.
        on: "server": the examples held out for it (zhao2018's set G); "everyone": all training examples, the
            pre-trained start of zhao2018's table 3.
        batch_size: of this training; None takes the clients' (zhao2018's SGD has a batch ten times as large).
    """
    if not 0 < until <= 1:
        raise AskewError(f"warm_up: until must be in (0, 1], got {until}")
    if epochs < 1:
        raise AskewError(f"warm_up: epochs must be at least 1, got {epochs}")
    if batch_size is not None and batch_size < 0:
        raise AskewError(f"warm_up: batch_size must not be negative, got {batch_size}; 0 takes all examples at once")

    def make(task: Task, fresh: ModelState) -> ModelState:
        mine = task.population.server if on == "server" else np.arange(len(task.data.train))
        if len(mine) == 0:
            raise AskewError("start: warm_up needs examples at the server; set hold_out = 0.2, say")
        model = fresh
        for epoch in range(epochs):
            model = task.train_pooled(model, mine, epochs=1, role="warm-up", number=epoch, batch_size=batch_size)
            if task.accuracy(model) >= until:
                break
        return model

    return Start(make)


@piece("start")
def pretrained(path: str) -> Start:
    """Weights from a safetensors file, such as the `model.safetensors` of an earlier run.

    Args:
        path: the file.
    """

    def make(task: Task, fresh: ModelState) -> ModelState:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if not Path(path).is_file():
            raise AskewError(f"start: no weights file {path!r}")
        try:
            tensors = load_file(path)
        except SafetensorError as error:
            raise AskewError(f"start: {path!r} is not a safetensors file: {error}") from None
        for name, wanted in {**fresh.params, **fresh.buffers, **task.frozen}.items():
            if name not in tensors or tensors[name].shape != wanted.shape:
                found = tuple(tensors[name].shape) if name in tensors else "nothing"
                raise AskewError(f"start: {path!r} does not fit the network: {name} must be {tuple(wanted.shape)}, found {found}")
        with torch.no_grad():
            for name, old in task.frozen.items():
                old.copy_(tensors[name])  # the network's own: they are no part of what is trained
        fill = {name: tensors[name].to(old.device, old.dtype) for name, old in {**fresh.params, **fresh.buffers}.items()}
        return ModelState({name: fill[name] for name in fresh.params}, {name: fill[name] for name in fresh.buffers})

    return Start(make)
