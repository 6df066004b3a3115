"""The guard at the server's door: what it refuses never reaches a statistic."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from askew.core.cohort import squared_lengths
from askew.core.compat import tree_leaves
from askew.engine.protocol import Chunk
from askew.engine.schedule import ToHost
from askew.rounds.gather import Gathering


def let_in(gatherings: Sequence[Gathering]) -> None:
    """Of what guarded rounds hold back, let in what their guards do not refuse; waits for the device once, for all."""
    chunks = [(gathering, number, chunk) for gathering in gatherings for number, chunk in gathering.held]
    if not chunks:
        return
    lengths = ToHost([_lengths(chunk) for _, _, chunk in chunks]).read()
    for gathering in gatherings:
        mine = [(at[1], at[2], values) for at, values in zip(chunks, lengths, strict=True) if at[0] is gathering]
        for number in dict.fromkeys(number for number, _, _ in mine):
            _judge(gathering, number, [(chunk, values) for other, chunk, values in mine if other == number])
        gathering.held.clear()


def _judge(gathering: Gathering, number: int, chunks: Sequence[tuple[Chunk, Tensor]]) -> None:
    """All updates of one model."""
    lengths = torch.cat([values for _, values in chunks])
    clients = [job.client for chunk, _ in chunks for job in chunk.jobs]
    inside = torch.ones(len(lengths), dtype=torch.bool)
    for guard in gathering.task.guards:  # each judges what those before it have let pass
        here = inside.nonzero().flatten()
        for reason, refused in guard.refuses(lengths[here]).items():
            gathering.left_out.setdefault(reason, []).extend(clients[i] for i in here[refused & inside[here]].tolist())
            inside[here[refused]] = False
    for (chunk, _), mask in zip(chunks, inside.split([len(values) for _, values in chunks]), strict=True):
        if mask.all():
            gathering.take(number, chunk)
        elif mask.any():
            gathering.take(number, chunk.of_rows(mask.nonzero().flatten().tolist()))


def _lengths(chunk: Chunk) -> Tensor:
    """[K] of the updates; NaN where anything that a client sent, or its loss, is not finite."""
    squares = squared_lengths(chunk.updates) if chunk.squares is None else chunk.squares
    finite = torch.stack([v.isfinite().flatten(1).all(dim=1) if v.ndim > 1 else v.isfinite()
                          for v in (*tree_leaves(dict(chunk.message)), chunk.losses)]).all(dim=0)
    return torch.where(finite, squares.sum(dim=1).sqrt(), torch.nan)
