"""The guard at the server's door: what it refuses never reaches a statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from askew.core.adversity import mask_of
from askew.core.cohort import squared_lengths
from askew.core.compat import tree_leaves
from askew.core.errors import AskewError, shown
from askew.engine.protocol import Chunk, Job
from askew.engine.schedule import ToHost
from askew.rounds.gather import Gathering


def let_in(gatherings: Sequence[Gathering]) -> None:
    """Of what guarded rounds hold back, let in what their guards do not refuse; waits for the device once, for all."""
    held = [chunk for gathering in gatherings for chunk in gathering.held]
    if not held:
        return
    lengths = iter(ToHost([_lengths(chunk) for chunk in held]).read())
    for gathering in gatherings:
        chunks, mine = gathering.held, [next(lengths) for _ in gathering.held]
        gathering.held = []
        if not chunks:
            continue
        inside = _judged(gathering, [job for chunk in chunks for job in chunk.jobs], torch.cat(mine))
        for chunk, mask in zip(chunks, inside.split([len(values) for values in mine]), strict=True):
            if mask.any():
                gathering.take(chunk if mask.all() else chunk.of_rows(mask.nonzero().flatten().tolist()))


def _judged(gathering: Gathering, jobs: Sequence[Job], lengths: Tensor) -> Tensor:
    """[jobs] who may come in; who may not is noted. Each model's updates are compared with each other."""
    inside = torch.ones(len(jobs), dtype=torch.bool)
    for number in dict.fromkeys(job.model for job in jobs):
        mine = torch.tensor([i for i, job in enumerate(jobs) if job.model == number])
        for guard in gathering.task.guards:  # each judges what those before it have let pass
            here = mine[inside[mine]]
            where = f"guard {guard.spec.name if guard.spec else 'of your own'}"
            refusals = guard.refuses(lengths[here])
            if not isinstance(refusals, Mapping):
                raise AskewError(f"{where}: refuses must give masks by reason, not {shown(refusals)}")
            for reason, refused in refusals.items():
                out = here[mask_of(f"{where}: {reason}", refused, len(here)) & inside[here]].tolist()
                inside[out] = False
                gathering.left_out.setdefault(reason, []).extend(jobs[i].client for i in out)
    return inside


def _lengths(chunk: Chunk) -> Tensor:
    """[K] of the updates; NaN where anything that a client sent, or its loss, is not finite."""
    squares = squared_lengths(chunk.updates) if chunk.squares is None else chunk.squares
    finite = torch.stack([v.isfinite().flatten(1).all(dim=1) if v.ndim > 1 else v.isfinite()
                          for v in (*tree_leaves(dict(chunk.message)), chunk.losses)]).all(dim=0)
    return torch.where(finite, squares.sum(dim=1).sqrt(), torch.nan)
