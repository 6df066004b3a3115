"""The server's pieces of many configurations at once: one more batch axis, over models and numbers that differ.

Forty configurations of a sweep would otherwise be bound by a loop over them in Python. What cannot be batched (training
at the server, several models, probes, pieces that look at a value) goes one after the other, with the same result.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from askew.core import registry, rng
from askew.core.cohort import Cohort, squared_lengths
from askew.core.compat import tree_map
from askew.core.errors import AskewError
from askew.core.registry import Spec
from askew.core.server_piece import ServerChain, ServerContext
from askew.core.statistic import Unnamed
from askew.core.tensors import ModelState, Params, Tree, add
from askew.engine.protocol import Chunk
from askew.engine.schedule import on_device
from askew.rounds.gather import Gathering, GlobalModel
from askew.rounds.mishaps import spoils

FROM = 4  # configurations: stacking a few takes as long as going through them


Models = dict[int, GlobalModel]  # by their numbers


def aggregate_together(gatherings: Sequence[Gathering], chunks: Mapping[int, Chunk]) -> dict[int, Models]:
    """The new models of those configurations that need not go one by one.

    Args:
        gatherings: of all configurations.
        chunks: number of the configuration -> what an engine has trained of it, all at once.
    """
    kinds: dict[Hashable, list[int]] = {}
    for i, chunk in chunks.items() if len(chunks) >= FROM else ():
        kinds.setdefault(_kind(gatherings[i], chunk), []).append(i)
    kinds.pop(None, None)
    made: dict[int, Models] = {}
    for numbers in kinds.values():
        if len(numbers) >= FROM:
            models = _aggregated([gatherings[i] for i in numbers], [chunks[i] for i in numbers])
            made |= zip(numbers, models, strict=bool(models))
    return made


def _kind(gathering: Gathering, chunk: Chunk) -> Hashable:
    """What configurations have in common whose rounds have one shape and whose servers differ in numbers only.

    None where a round is not all there, or where somebody wants to look at it by itself.
    """
    task, clients = gathering.task, [job.client for job in chunk.jobs]
    if (len(clients) < max(2, len(gathering.jobs)) or clients != sorted(clients) or list(gathering.entries) != [0]
            or task.probes or task.guards or any(piece.trains for piece in task.server.pieces) or spoils(task)):
        return None
    pieces = repr([registry.without_numbers(spec) for spec in task.recipe.server])
    return gathering.round, len(clients), task.num_clients, pieces


def _aggregated(gatherings: Sequence[Gathering], chunks: Sequence[Chunk]) -> list[Models]:
    """The new models of configurations of one kind; none where a piece cannot be batched."""
    first = gatherings[0]
    specs = [gathering.task.recipe.server for gathering in gatherings]
    varying = _differing(specs)
    device = first.task.device
    values = {at: on_device(numbers, device) for at, numbers in varying.items()}
    plain, like, clients = first.task.server, first.entries[0].model, first.task.num_clients

    def one(message: Mapping[str, Tree], squares: Tensor, losses: Tensor, numbers: tuple[Tensor, Tensor, Tensor],
            state: Tree, params: Params, key: Tensor,
            values: Mapping[Any, Tensor]) -> tuple[Params, Params, Tree, Tensor]:
        chain = _built(specs[0], values) if values else plain
        cohort = Cohort(params, chain.needs, like.buffers)
        senders = Unnamed((), *numbers, losses)
        cohort.add(message, senders, chain.weigh(senders), squares)
        u, state = chain.update({}, state, ServerContext(params, first.round, clients, key, cohort, _no_training))
        return add(params, u), cohort.buffers, state, cohort.lengths

    senders = [gathering.senders(0, chunk) for gathering, chunk in zip(gatherings, chunks, strict=True)]
    examples, steps, scores = (on_device(torch.stack([getattr(s, name) for s in senders]), device)
                               for name in ("examples", "steps", "scores"))
    keys = on_device(torch.stack([rng.key(g.task.recipe.seed, "server", g.round, 0) for g in gatherings]), device)
    entries = [gathering.entries[0] for gathering in gatherings]
    try:
        with torch.no_grad():
            params, buffers, states, lengths = torch.func.vmap(one)(
                _stacked([chunk.message for chunk in chunks]), torch.stack([_squares(chunk) for chunk in chunks]),
                torch.stack([chunk.losses for chunk in chunks]), (examples, steps, scores),
                _stacked([entry.chain for entry in entries]), _stacked([entry.model.params for entry in entries]),
                keys, values)
    except (RuntimeError, ValueError, TypeError, AskewError):  # a piece that cannot be batched: whatever torch says
        return []
    for i, (gathering, chunk) in enumerate(zip(gatherings, chunks, strict=True)):
        gathering.take_aggregated(chunk, lengths[i])
    return [{0: GlobalModel(ModelState(_row(params, i), _row(buffers, i)), _row(states, i))}
            for i in range(len(gatherings))]


def _differing(specs: Sequence[Sequence[Spec]]) -> dict[tuple[int, str], list[float]]:
    """(piece, path of a number in it) -> its values, where these are not all the same."""
    varying: dict[tuple[int, str], list[float]] = {}
    for at, first in enumerate(specs[0]):
        numbers = [registry.numbers_of(pieces[at]) for pieces in specs]
        for path, value in registry.numbers_of(first).items():
            if any(others[path] != value for others in numbers):
                varying[at, path] = [others[path] for others in numbers]
    return varying


def _built(specs: Sequence[Spec], values: Mapping[Any, Tensor]) -> ServerChain:
    pieces = []
    for i, spec in enumerate(specs):
        changed = {name: v for (j, name), v in values.items() if j == i}
        pieces.append(registry.build("server", registry.with_numbers(spec, changed)))
    return ServerChain(pieces)


def _squares(chunk: Chunk) -> Tensor:
    return squared_lengths(chunk.updates) if chunk.squares is None else chunk.squares


def _stacked(trees: Sequence[Tree]) -> Tree:
    return tree_map(lambda *rows: torch.stack(rows), *trees)


def _row(tree: Tree, i: int) -> Tree:
    return tree_map(lambda v: v[i], tree)


def _no_training(params: Params, epochs: int) -> Params:
    raise AskewError("configurations whose server trains go one after the other")
