"""Into which CUDA graphs the local steps of a chunk are cut: few, since each has to be captured."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from askew.engine.tuning import IDLE, WHOLE


class Form(NamedTuple):
    """The shapes of a local step; steps of one form share their graphs."""

    clients: int  # the first so many take it
    batch: int
    uneven: bool  # some of these clients may have finished, and stand idle
    padded: bool  # batches may hold padding


def active_clients(steps: Sequence[int], t: int) -> int:
    """How many clients have a step t; `steps`, of each client, falls."""
    return int(np.searchsorted(-np.asarray(steps), -t))


def plan_steps(steps: Sequence[int], batch_sizes: np.ndarray, batch: int, room: int,
               exact: bool) -> list[tuple[Form, int]]:
    """Form and number of steps of each graph, in the order in which they run.

    Args:
        steps: of each client, most first.
        batch_sizes: [J, T] real examples in each client's batches.
        batch: examples per batch that the memory has room for.
        room: clients that it has room for.
        exact: no padding within a batch.
    """
    uneven = len(set(steps)) > 1 or room > len(steps)
    padded = uneven or (not exact and bool((batch_sizes < batch).any()))
    forms = []
    for t in range(max(steps)):
        active = active_clients(steps, t)
        size = int(batch_sizes[:active, t].max()) if exact else batch
        forms.append(Form(bucket(active, room) if uneven else len(steps), size, uneven, padded))
    if sum(form.clients for form in forms) * IDLE > room * len(forms):  # nearly equal: one graph, a few stand idle
        forms = [form._replace(clients=room) for form in forms]
    return [(form, count) for form, same in itertools.groupby(forms)
            for count in graph_sizes(len(list(same)), uneven)]


def graph_sizes(steps: int, uneven: bool) -> list[int]:
    """How many steps each graph takes, of `steps` that have one form.

    All of them where they are few; else, and where their number changes from round to round, powers of two, so that
    there are few graphs.

    Example:
        >>> graph_sizes(10, False), graph_sizes(22, True)
        ([10], [16, 4, 2])
    """
    if not uneven and steps <= WHOLE:
        return [steps]
    return [WHOLE] * (steps // WHOLE) + [size for size in (8, 4, 2, 1) if steps % WHOLE & size]


def bucket(active: int, room: int) -> int:
    """The smallest of K, K/2, K/4, ..., down to 4, that holds all active clients: few graphs, at most half idle.

    Not below 4: launching a step's kernels takes as long for one client as for four.
    """
    size = room
    while (size + 1) // 2 >= max(active, 4):
        size = (size + 1) // 2
    return size
