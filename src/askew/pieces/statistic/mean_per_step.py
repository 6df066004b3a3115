"""Updates per local step, and how many steps the clients took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from askew.core.statistic import Senders, Statistic, type_of_mean
from askew.core.tensors import Params, Tree, add


@dataclass(frozen=True)
class MeanPerStep(Statistic):
    """sum_k p_k u_k / a_k and sum_k p_k a_k, with p_k by examples and a_k the length of client k's walk.

        a = steps                                                      without momentum
        a = (steps - m (1 - m^steps) / (1 - m)) / (1 - m)              with momentum m

    Args:
        momentum: of the clients' optimiser.
    """

    momentum: float = 0.0

    adds_up: ClassVar[bool] = True

    def add(self, total: tuple[Params, Params, Tensor, Tensor] | None, message: Mapping[str, Tree],
            senders: Senders) -> tuple[Params, Params, Tensor, Tensor]:
        examples, walk = senders.examples.double(), self.walk(senders.steps.double())
        weights = examples / walk
        sums = {name: torch.tensordot(weights.to(u.device), u.double(), dims=1)
                for name, u in message["update"].items()}
        types = {name: type_of_mean(u) for name, u in message["update"].items()}
        part = sums, types, (examples * walk).sum(), examples.sum()
        return part if total is None else self.merge(total, part)

    def merge(self, a: tuple[Params, Params, Tensor, Tensor],
              b: tuple[Params, Params, Tensor, Tensor]) -> tuple[Params, Params, Tensor, Tensor]:
        return add(a[0], b[0]), a[1], a[2] + b[2], a[3] + b[3]

    def value(self, total: tuple[Params, Params, Tensor, Tensor]) -> tuple[Params, Tensor]:
        """The mean update per step, and the mean walk."""
        sums, types, walks, examples = total
        return ({name: (v / examples.to(v.device)).to(types[name].dtype) for name, v in sums.items()}, walks / examples)

    def walk(self, steps: Tensor) -> Tensor:
        m = self.momentum
        return steps if m == 0 else (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)
