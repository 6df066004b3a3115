"""The weights that round 1 begins with."""

from __future__ import annotations

from functools import partial

import numpy as np

from askew.core import registry
from askew.core.errors import AskewError, shown
from askew.core.start import Start, StartContext
from askew.core.tensors import ModelState, form_of
from askew.engine.evaluate import score
from askew.engine.local import train_pooled
from askew.engine.task import Task


def initial_model(task: Task) -> ModelState:
    """What the start that the recipe names makes of the network's first weights."""
    return first_weights(registry.build("start", task.recipe.start), start_context(task))


def first_weights(start: Start, ctx: StartContext) -> ModelState:
    """What a start makes, in the network's order: all of its tensors, in their shapes and types, and no others.

    Raises:
        AskewError: one line with the first tensor that is not so; it would not be trained, or fail in round 1.
    """
    name, fresh, made = start.spec.name if start.spec else "start", ctx.fresh, start.make(ctx)
    if not (isinstance(made, ModelState) and isinstance(made.params, dict) and isinstance(made.buffers, dict)):
        raise AskewError(f"start: {name} makes {shown(made)}; it must make a ModelState(params, buffers)")
    for what, tensors, wanted in (("params", made.params, fresh.params), ("buffers", made.buffers, fresh.buffers)):
        expected, forms = ({key: form_of(v) for key, v in some.items()} for some in (wanted, tensors))
        if odd := [key for key in {**expected, **forms} if forms.get(key) != expected.get(key)]:
            raise AskewError(f"start: {name} makes {forms.get(odd[0], 'nothing')} of {odd[0]!r}, where the network has "
                             f"{expected.get(odd[0], 'nothing')}; take ctx.fresh.{what}, and change what you want")
    return ModelState({key: made.params[key] for key in fresh.params},
                      {key: made.buffers[key] for key in fresh.buffers})


def start_context(task: Task) -> StartContext:
    """What a start may know and do."""

    def train(model: ModelState, indices: np.ndarray, batch_size: int | None, number: int) -> ModelState:
        return train_pooled(task, model, indices, epochs=1, role="warm-up", number=number, batch_size=batch_size)

    return StartContext(task.recipe, task.data, task.population, task.objective, task.fresh, task.frozen, train,
                        partial(score, task))
