"""What a recipe's adversities do to one round: who does not report, and what others send in place of their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from askew.core.adversity import AdversityContext
from askew.core.compat import tree_flatten, tree_map
from askew.core.errors import AskewError
from askew.engine.protocol import Chunk
from askew.engine.schedule import on_device
from askew.engine.task import Task


def absent(task: Task, round: int, clients: Sequence[int]) -> tuple[dict[int, str], dict[str, float]]:
    """Client -> why it does not report, and what the round's record is to hold of it.

    Of several reasons the first counts, in the order of the recipe.
    """
    gone = torch.zeros(len(clients), dtype=torch.bool)
    reasons: dict[int, str] = {}
    measured: dict[str, float] = {}
    for at, adversity in enumerate(task.adversities):
        if adversity.reason is None:
            continue
        ctx = AdversityContext.of(task.recipe, task.population, at, round, clients)
        measured |= adversity.measure(ctx, gone) or {}
        struck = adversity.strikes(ctx) & ~gone
        reasons |= {clients[i]: adversity.reason for i in struck.nonzero().flatten().tolist()}
        gone = gone | struck
    return reasons, measured


def spoilers(task: Task, round: int, clients: Sequence[int]) -> dict[int, frozenset[int]]:
    """Place of an adversity that spoils messages -> whom of a round's clients it strikes."""
    struck = {at: adversity.strikes(AdversityContext.of(task.recipe, task.population, at, round, clients))
              for at, adversity in enumerate(task.adversities) if adversity.spoil is not None}
    return {at: frozenset(clients[i] for i in mask.nonzero().flatten().tolist()) for at, mask in struck.items()}


def spoilt(task: Task, struck_by: Mapping[int, frozenset[int]], chunk: Chunk) -> Chunk:
    """The chunk as it reaches the server."""
    for at, who in struck_by.items():
        adversity, struck = task.adversities[at], torch.tensor([job.client in who for job in chunk.jobs])
        if struck.any():
            assert adversity.spoil is not None, "one of the spoilers"
            good = dict(chunk.message)
            bad = adversity.spoil(tree_map(torch.clone, good))  # a copy, since `spoil` may work in place
            if _form(bad) != _form(good):
                raise AskewError(f"adversity {adversity.name}: spoil must give a message of the form that it was "
                                 "given; keep its names and shapes")
            message = tree_map(partial(_rows_where, on_device(struck, chunk.losses.device)), bad, good)
            chunk = replace(chunk, message=message, squares=None)
    return chunk


def _form(message: Any) -> Any:
    """Names and shapes."""
    leaves, names = tree_flatten(message)
    return names, [tuple(v.shape) if isinstance(v, Tensor) else None for v in leaves]


def _rows_where(mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask.view(-1, *[1] * (one.ndim - 1)), one, other)


def spoils(task: Task) -> bool:
    """Whether clients may send nonsense."""
    return any(adversity.spoil is not None for adversity in task.adversities)
