"""The server's guard: which of the updates that have come are left out of the round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from askew.core.registry import Spec


@dataclass(frozen=True)
class Guard:
    """Judges the updates of one round and one model by their lengths.

    What it refuses is left out of everything: the mean and all statistics, buffers, what clients remember, losses,
    probes. It needs the lengths of all before the first can be used: the updates of a round are kept until the last has
    come (a model's memory for each client), and the host waits for a GPU in the middle of each round, so that the next
    one is not begun early.

    Args:
        refuses: lengths [K], NaN where anything that a client sent is not finite -> reason -> [K] whom.
        spec: how it was made, set by `@piece`.
    """

    refuses: Callable[[Tensor], Mapping[str, Tensor]]
    spec: Spec | None = None
