"""How many of torch's threads a run uses on a CPU: by rule, so that its bits do not depend on the machine's other work.

Threads that share an operation wait for each other at its end, and spin while they wait. Where the machine has
other work, that takes longer than the operation: W3's rounds take 23 ms on one thread and 16 on two on a machine
that is free, but 88 and 1,580 ms beside two busy processes (2 cores; docs/performance.md). So clients train on one
thread each, several of them at once under `parallel`, and only passes as large as SHARED are shared: of
`sequential`, and of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from askew.engine.protocol import Engine
from askew.engine.task import Task
from askew.engine.tuning import CHUNK, SHARED


@dataclass(frozen=True)
class Threads:
    """Of one run.

    Args:
        training: for local steps, of each client and at the server.
        evaluation: for passes over test examples.
    """

    training: int
    evaluation: int


def threads_for(task: Task, engine: Engine, allowed: int | None = None) -> Threads:
    """The numbers for a task and an engine.

    Args:
        allowed: as many as torch may use; by default `allowed_threads`.
    """
    allowed = allowed_threads() if allowed is None else allowed
    if task.device.type != "cpu":
        return Threads(allowed, allowed)
    an_example = forward_flops(task)
    # The others have many clients to keep a core busy, and give the same bits on any machine.
    shares = engine.one_at_a_time and an_example * examples_per_step(task) >= SHARED
    judged = an_example * min(CHUNK["cpu"], len(task.data.test))
    return Threads(allowed if shares else 1, allowed if judged >= SHARED else 1)


_allowed: ContextVar[int | None] = ContextVar("allowed threads", default=None)


def allowed_threads() -> int:
    """As many as the user lets torch use, whatever a run makes of them."""
    return _allowed.get() or torch.get_num_threads()


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """So many of torch's threads here; as many as before afterwards."""
    before, token = torch.get_num_threads(), _allowed.set(allowed_threads())
    if number != before:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if number != before:
            torch.set_num_threads(before)
        _allowed.reset(token)


def examples_per_step(task: Task) -> int:
    """In a client's batch: B, or all that an average client has."""
    return task.recipe.batch_size or max(1, round(float(task.population.sizes.mean())))


def forward_flops(task: Task) -> float:
    """Floating-point operations of the network for one example: two for each weight, wherever a layer applies it.

    An estimate for rules: it leaves out whatever has no weights (activations, pooling, the scores of attention).

    Example:
        >>> from askew.engine.build import build_task
        >>> forward_flops(build_task(askew.Recipe(data="digits()", model="mlp(hidden=[64])")))  # 2 (64 * 64 + 64 * 10)
        9472.0
    """
    counted = 0.0

    def count(layer: nn.Module, _: Any, output: Any) -> None:
        nonlocal counted
        first = output if isinstance(output, Tensor) else next((v for v in output if isinstance(v, Tensor)), None)
        for weight in layer.parameters(recurse=False):
            if (first is not None and first.numel() and weight.ndim > 1
                    and not isinstance(layer, nn.Embedding | nn.EmbeddingBag)):
                channels = first.shape[1 if weight.ndim > 2 else -1]
                counted += 2 * weight.numel() * first[0].numel() / channels

    hooks = [layer.register_forward_hook(count) for layer in task.module.modules()]
    was_training = task.module.training
    task.module.eval()  # BatchNorm's statistics stay as they are
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), use_threads(1):
            task.module(task.prepare.apply(task.data.train.x[:2], None))
    finally:
        task.module.train(was_training)
        for hook in hooks:
            hook.remove()
    return counted
