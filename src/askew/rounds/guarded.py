"""The guard at the server's door: what it refuses never reaches a statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from askew.core.adversity import mask_of
from askew.core.cohort import squared_lengths
from askew.core.compat import tree_leaves
from askew.core.errors import AskewError, shown
from askew.engine.peers import Peers
from askew.engine.protocol import Chunk, Job
from askew.engine.schedule import ToHost
from askew.rounds.gather import Gathering


def let_in(gatherings: Sequence[Gathering], peers: Peers | None = None) -> None:
    """Of what guarded rounds hold back, let in what their guards do not refuse; waits for the device once, for all.

    Args:
        peers: processes that hold back other clients of the same rounds: what all hold is judged together.
    """
    held = [chunk for gathering in gatherings for chunk in gathering.held]
    lengths = iter(ToHost([_lengths(chunk) for chunk in held]).read() if held else ())
    for gathering in gatherings:
        if not gathering.task.guards or (not gathering.held and peers is None):
            continue
        chunks, lengths_of_chunks = gathering.held, [next(lengths) for _ in gathering.held]
        gathering.held = []
        none = torch.empty(0, dtype=torch.float64)
        inside = _judged_by_all(gathering, [job for chunk in chunks for job in chunk.jobs],
                                torch.cat([none, *lengths_of_chunks]), peers)
        masks = inside.split([len(values) for values in lengths_of_chunks]) if chunks else ()
        for chunk, mask in zip(chunks, masks, strict=True):
            if mask.any():
                gathering.take(chunk if mask.all() else chunk.of_rows(mask.nonzero().flatten().tolist()))


def _judged_by_all(gathering: Gathering, jobs: Sequence[Job], lengths: Tensor, peers: Peers | None) -> Tensor:
    """[jobs] who of this process's may come in."""
    if peers is None:
        return _judged(gathering, jobs, lengths)
    held = peers.exchange(([job.model for job in jobs], [job.client for job in jobs], lengths))
    everyone = [Job(*job) for models, clients, _ in held for job in zip(models, clients, strict=True)]
    inside = _judged(gathering, everyone, torch.cat([lengths for *_, lengths in held]))
    return inside.split([len(lengths) for *_, lengths in held])[peers.rank]


def _judged(gathering: Gathering, jobs: Sequence[Job], lengths: Tensor) -> Tensor:
    """[jobs] who may come in; who may not is noted. Each model's updates are compared with each other."""
    inside = torch.ones(len(jobs), dtype=torch.bool)
    for number in dict.fromkeys(job.model for job in jobs):
        of_model = torch.tensor([i for i, job in enumerate(jobs) if job.model == number])
        for guard in gathering.task.guards:  # each judges what those before it have let pass
            passed = of_model[inside[of_model]]
            where = f"guard {guard.spec.name if guard.spec else 'of your own'}"
            refusals = guard.refuses(lengths[passed])
            if not isinstance(refusals, Mapping):
                raise AskewError(f"{where}: refuses must give masks by reason, not {shown(refusals)}")
            for reason, refused in refusals.items():
                out = passed[mask_of(f"{where}: {reason}", refused, len(passed)) & inside[passed]].tolist()
                inside[out] = False
                gathering.left_out.setdefault(reason, []).extend(jobs[i].client for i in out)
    return inside


def _lengths(chunk: Chunk) -> Tensor:
    """[K] of the updates; NaN where anything that a client sent, or its loss, is not finite."""
    squares = squared_lengths(chunk.updates) if chunk.squares is None else chunk.squares
    finite = torch.stack([v.isfinite().flatten(1).all(dim=1) if v.ndim > 1 else v.isfinite()
                          for v in (*tree_leaves(dict(chunk.message)), chunk.losses)]).all(dim=0)
    return torch.where(finite, squares.sum(dim=1).sqrt(), torch.nan)
