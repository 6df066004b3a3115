"""The mean of the clients' local losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from askew.core.statistic import Senders, Statistic
from askew.core.tensors import Tree


@dataclass(frozen=True)
class MeanLoss(Statistic):
    """sum_k l_k / K, where l_k is the mean loss of client k's local steps: `train_loss` of a run's records.

    Clients count the same, however many examples they have. In float64, so that neither order nor chunks show.

    Example:
        Losses 1 and 2 of two clients: 1.5.

        >>> one = torch.ones(2)
        >>> MeanLoss().value(MeanLoss().add(None, {}, Senders([0, 1], one, one, one, torch.tensor([1.0, 2.0]))))
        tensor(1.5000, dtype=torch.float64)
    """

    adds_up: ClassVar[bool] = True

    def add(self, total: tuple[Tensor, int] | None, message: Mapping[str, Tree],
            senders: Senders) -> tuple[Tensor, int]:
        losses = senders.losses.double().sum(), len(senders.losses)
        return losses if total is None else self.merge(total, losses)

    def merge(self, a: tuple[Tensor, int], b: tuple[Tensor, int]) -> tuple[Tensor, int]:
        return a[0] + b[0], a[1] + b[1]

    def value(self, total: tuple[Tensor, int]) -> Tensor:
        return total[0] / total[1]
