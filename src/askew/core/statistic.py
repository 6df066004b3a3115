"""Statistics: what the server may ask of a round's clients.

A statistic streams: clients are added in chunks of any size and in any order, and parts that were added elsewhere are
merged. It is a value: two pieces that need equal ones share what is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.tensors import Tree


@dataclass(frozen=True)
class Senders:
    """The clients of a chunk, in the order of its rows.

    Args:
        clients: their numbers.
        examples: [K] how many each trains on.
        steps: [K] local steps that each has taken.
        scores: [K] the score that each gives the model (FedCD); 1 elsewhere.
        losses: [K] mean local loss of each.
    """

    clients: Sequence[int]
    examples: Tensor
    steps: Tensor
    scores: Tensor
    losses: Tensor

    @property
    def known(self) -> bool:
        """Whether it is known who they are; the servers of several configurations in one computation do not know."""
        return True

    @property
    def order(self) -> list[int]:
        """By which their rows are sorted."""
        return list(self.clients)


class Unnamed(Senders):
    """Clients whose numbers nobody may ask for, in the order of their rows."""

    def __getattribute__(self, name: str) -> Any:
        if name == "clients":
            raise AskewError("the clients' numbers differ from configuration to configuration")
        return super().__getattribute__(name)

    @property
    def known(self) -> bool:
        return False

    @property
    def order(self) -> list[int]:
        return list(range(len(self.losses)))


class Statistic:
    """One statistic; made as a frozen dataclass, so that equal ones are one.

    Attributes:
        keeps_all: it keeps every client's message, so that memory grows with the cohort; the run says how
            much before it begins.
        adds_up: merging two totals adds their numbers and does nothing else, so that several processes may sum them
            at once; totals of other statistics travel to all processes and are merged there.
    """

    keeps_all: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False

    def add(self, total: Any, message: Mapping[str, Tree], senders: Senders) -> Any:
        """`total` (None at first) with these clients: every tensor of `message` has a row per client."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """Two totals as one."""
        raise NotImplementedError

    def value(self, total: Any) -> Any:
        """What pieces read."""
        raise NotImplementedError


def type_of_mean(v: Tensor) -> Tensor:
    """No numbers, of the type in which a mean of `v` is read: its own, and no less than float32.

    A total keeps it beside sums in float64. It merges, adds up and travels as they do.

    Example:
        >>> [type_of_mean(torch.ones(2, dtype=kind)).dtype for kind in (torch.float64, torch.float16, torch.int64)]
        [torch.float64, torch.float32, torch.float32]
    """
    return v.new_empty(0, dtype=torch.promote_types(v.dtype, torch.float32))
