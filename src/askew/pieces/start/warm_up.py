"""Training at the server before the first round.

References:
    zhao2018, section 4.2 (warm-up on the shared set) and table 3 (pre-trained start).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.start import Start, StartContext
from askew.core.tensors import ModelState


@piece("start")
def warm_up(until: float = 0.6, epochs: int = 100, on: Literal["server", "everyone"] = "server",
            batch_size: int | None = None) -> Start:
    """Train at the server before the first round, until a test accuracy (the objective's headline) or for some epochs.

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

    def examples_of(ctx: StartContext) -> np.ndarray:
        return ctx.population.server if on == "server" else np.arange(len(ctx.data.train))

    def depends_on(ctx: StartContext) -> Hashable:
        recipe = ctx.recipe
        names = (recipe.data, recipe.preprocess, recipe.model, recipe.client, recipe.batch_size)
        return (recipe.seed, *map(str, names), examples_of(ctx).tobytes())

    def make(ctx: StartContext) -> ModelState:
        examples = examples_of(ctx)
        if len(examples) == 0:
            raise AskewError("start: warm_up needs examples at the server; "
                             "write population = '... + hold_out(0.2)', say")
        model = ctx.fresh
        for epoch in range(epochs):
            model = ctx.train(model, examples, batch_size, epoch)
            if ctx.objective.reached(ctx.score(model), until):
                break
        return model

    return Start(make, depends_on)
