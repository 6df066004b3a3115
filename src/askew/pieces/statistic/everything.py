"""All that the clients sent: for medians and the like, which no sum can give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from askew.core.compat import tree_map
from askew.core.statistic import Senders, Statistic
from askew.core.tensors import Tree


@dataclass(frozen=True)
class Everything(Statistic):
    """The entry `of` of every client's message, one row per client in the order of their numbers.

    Memory grows with the cohort: a run says how much before it begins, and refuses what the device cannot hold.

    Example:
        >>> server_context([(1,), (4,)], needs=[Everything()]).cohort[Everything()]["w"]
        tensor([[1.],
                [4.]])
    """

    of: str = "update"
    keeps_all: ClassVar[bool] = True

    def add(self, total: tuple[Tree, list[int]] | None, message: Mapping[str, Tree],
            senders: Senders) -> tuple[Tree, list[int]]:
        chunk = message[self.of], senders.order
        return chunk if total is None else self.merge(total, chunk)

    def merge(self, a: tuple[Tree, list[int]], b: tuple[Tree, list[int]]) -> tuple[Tree, list[int]]:
        return tree_map(lambda x, y: torch.cat([x, y]), a[0], b[0]), a[1] + b[1]

    def value(self, total: tuple[Tree, list[int]]) -> Tree:
        rows, clients = total
        order = torch.tensor(sorted(range(len(clients)), key=clients.__getitem__))
        return tree_map(lambda v: v[order.to(v.device)], rows)
