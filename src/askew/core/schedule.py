"""Schedules: numbers that change from round to round, as values that a piece takes in place of one number.

`sgd(lr=decay(0.1, 0.995))`. Whatever takes a rate says so in its type, `lr: Rate`, and reads it with `value_at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from askew.core.bounds import NonNegative, Positive
from askew.core.registry import Spec

Number = float | Tensor  # a tensor on a GPU, or where configurations with other numbers train together
Round = int | Tensor  # rounds completed, likewise


@dataclass(frozen=True)
class Schedule:
    """Rounds completed -> the number for the next one.

    Args:
        at: without Python control flow on a round's value, which may be a tensor.
        spec: how the schedule was made, set by `@piece`; two with the same one are equal.
    """

    kind: ClassVar[str] = "schedule"  # of the pieces that an argument of this type takes
    at: Callable[[Round], Number] = field(compare=False)
    spec: Spec | None = None

    def __call__(self, round: Round) -> Number:
        return self.at(round)


Rate = NonNegative | Schedule
PositiveRate = Positive | Schedule


def value_at(rate: Number | Schedule, round: Round) -> Number:
    """The number itself, or what the schedule says after so many rounds."""
    return rate(round) if isinstance(rate, Schedule) else rate


def part_of(round: Round, rounds: int) -> Number:
    """round / rounds, at most 1."""
    return (round / rounds).clamp(max=1.0) if isinstance(round, Tensor) else min(round / rounds, 1.0)


def cos_pi(x: Number) -> Number:
    """cos(pi x)."""
    return torch.cos(math.pi * x) if isinstance(x, Tensor) else math.cos(math.pi * x)
