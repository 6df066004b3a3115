"""The mean of something that the clients' pieces have put into their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from askew.core.compat import tree_map
from askew.core.statistic import Senders, Statistic, type_of_mean
from askew.core.tensors import Tree


@dataclass(frozen=True)
class MeanOf(Statistic):
    """sum_k a_k m_k / sum_k a_k of the entry `of` of the messages, a_k by what `weights` names.

    Sums are taken in float64, so that neither the order of the clients nor the chunks show in the result.

    Args:
        of: the entry's name.
        weights: "uniform" (default), "examples" or "steps".

    Example:
        Updates 1 and 4 of clients with 10 and 20 examples: (1 + 4) / 2 = 2.5, by examples (10 + 80) / 30 = 3.

        >>> by = MeanOf("update", "examples")
        >>> server_context([(1,), (4,)], examples=[10, 20], needs=[by]).cohort[by]["w"]
        tensor([3.])
    """

    of: str
    weights: Literal["uniform", "examples", "steps"] = "uniform"

    adds_up: ClassVar[bool] = True

    def add(self, total: tuple[Tree, Tree, Tensor] | None, message: Mapping[str, Tree],
            senders: Senders) -> tuple[Tree, Tree, Tensor]:
        weights = {"uniform": torch.ones_like(senders.examples), "examples": senders.examples,
                   "steps": senders.steps}[self.weights]
        weights = weights.double()
        sums = (tree_map(lambda v: torch.tensordot(weights.to(v.device), v.double(), dims=1), message[self.of]),
                tree_map(type_of_mean, message[self.of]), weights.sum())
        return sums if total is None else self.merge(total, sums)

    def merge(self, a: tuple[Tree, Tree, Tensor], b: tuple[Tree, Tree, Tensor]) -> tuple[Tree, Tree, Tensor]:
        return tree_map(torch.add, a[0], b[0]), a[1], a[2] + b[2]

    def value(self, total: tuple[Tree, Tree, Tensor]) -> Tree:
        return tree_map(lambda v, like: (v / total[2].to(v.device)).to(like.dtype), total[0], total[1])
