"""A round of several processes: each has gathered what its own clients sent, and all go on with the whole of it.

Means, norms' weights and every statistic that adds up are summed in float64, all tensors in one exchange; one row of
numbers per client (its weight, its loss, the squared lengths of its update's tensors) goes to all, and so do
the totals of statistics that do not add up. Those that keep every client's update send these to all processes: as much
memory in each as one process alone would need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from askew.core.compat import tree_flatten, tree_unflatten
from askew.core.errors import AskewError
from askew.core.tensors import Tree
from askew.engine.peers import Peers
from askew.rounds.gather import Gathering

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of a number


def share(gathering: Gathering, peers: Peers) -> None:
    """Make a gathering hold what all processes have gathered."""
    parts = peers.exchange({**gathering.part(), "weights": _digest(gathering)})
    _check_alike([part["weights"] for part in parts])
    # By the order of the models, not by that in which the clients of this process came.
    senders = {number: cohort_parts for number in gathering.entries
               if (cohort_parts := [part["cohorts"][number] for part in parts if number in part["cohorts"]])}
    cohorts = {number: gathering.cohort(number) for number in senders}
    sums = _summed({number: cohort.sums(senders[number][0]["forms"]) for number, cohort in cohorts.items()}, peers)
    gathering.take_shared({number: cohort.joined(senders[number], sums[number]) for number, cohort in cohorts.items()},
                          [loss for part in parts for loss in part["losses"]],
                          sum(part["bytes_beside"] for part in parts),
                          {number: _merged(gathering, [part["observed"].get(number, {}) for part in parts])
                           for number in cohorts})


def _summed(trees: Tree, peers: Peers) -> Tree:
    """All numbers of all processes, number by number, in float64."""
    leaves, shape = tree_flatten(trees)
    if not leaves:  # nobody has sent anything
        return trees
    numbers = [torch.as_tensor(v) for v in leaves]
    device = next((v.device for v in numbers if v.is_cuda), torch.device("cpu"))
    flat = peers.sum(torch.cat([v.to(device, torch.float64).flatten() for v in numbers]))
    parts = flat.split([v.numel() for v in numbers])
    return tree_unflatten([_like(part, old) for part, old in zip(parts, leaves, strict=True)], shape)


def _like(total: Tensor, old: Tensor | float) -> Tensor | float:
    """A sum in the form of what was summed; floating-point numbers stay in float64."""
    if not isinstance(old, Tensor):
        return type(old)(float(total))
    whole = total.view(old.shape).to(old.device)
    return whole if old.is_floating_point() else whole.round().to(old.dtype)


def _merged(gathering: Gathering, observed: Sequence[dict[int, Any]]) -> dict[int, Any]:
    """What probes have seen of one model's clients, over all processes."""
    merged: dict[int, Any] = {}
    for i, probe in enumerate(gathering.task.probes):
        gathered = [seen[i] for seen in observed if seen.get(i) is not None]
        if gathered and probe.merge is not None:
            merged[i] = reduce(probe.merge, gathered)
    return merged


def _digest(gathering: Gathering) -> list[int]:
    """Of the weights that the round begins with: their bits as whole numbers, added up."""
    return [int(sum(v.contiguous().view(-1).view(_BITS[v.element_size()]).sum() for v in entry.model.params.values()))
            for entry in gathering.entries.values()]


def _check_alike(digests: Sequence[list[int]]) -> None:
    """The server's pieces do the same in every process: else the models would drift apart, and nobody would see it."""
    odd = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if odd:
        raise AskewError(f"engine distributed: process {odd[0]} has other weights than the first one at the beginning "
                         "of a round; use machines of one kind, with the same versions, recipe and data")
