"""How many clients pull up and how many down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from askew.core.statistic import Senders, Statistic
from askew.core.tensors import Params, Tree, add


@dataclass(frozen=True)
class SignSum(Statistic):
    """sum_k sgn(u_k), coordinate by coordinate, unweighted.

    Example:
        Updates (1, 1, -1) and (2, -1, -3): sign sums (2, 0, -2).

        >>> server_context([(1, 1, -1), (2, -1, -3)], needs=[SignSum()]).cohort[SignSum()]["w"]
        tensor([ 2.,  0., -2.])
    """

    adds_up: ClassVar[bool] = True

    def add(self, total: Params | None, message: Mapping[str, Tree], senders: Senders) -> Params:
        signs = {name: v.sign().sum(dim=0) for name, v in message["update"].items()}
        return signs if total is None else add(total, signs)

    def merge(self, a: Params, b: Params) -> Params:
        return add(a, b)

    def value(self, total: Params) -> Params:
        return total
