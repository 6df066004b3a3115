"""Numbers that a piece takes, by type: `mu: NonNegative`. The registry refuses others before the piece is made.

A tensor (a hyper-parameter that carries a batch axis) is not looked at: its values have been checked one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

LARGEST = 10**9  # rounds, epochs, examples: a number beyond is a slip, and would fill the memory or never end


@dataclass(frozen=True)
class Bounds:
    """Numbers from `low` to `high`; `open_low` and `open_high` leave the ends out.

    Example:
        >>> Bounds(0, 1, open_high=True).words, 1.0 in Bounds(0, 1, open_high=True)
        ('must be in [0, 1)', False)
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def objection(self, value: float) -> str:
        """What a number has to be that is not within them."""
        return f"must be at most {self.high:,}" if value > self.high == LARGEST else self.words

    @property
    def words(self) -> str:
        if self.low == 0 and self.high >= LARGEST:
            return "must be positive" if self.open_low else "must not be negative"
        if self.high >= LARGEST:
            return f"must be {'above' if self.open_low else 'at least'} {self.low:g}"
        if isinstance(self.low, int) and isinstance(self.high, int) and not self.open_high and self.high > 1:
            return f"must be from {self.low} to {self.high}"
        return f"must be in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"


NonNegative = Annotated[float, Bounds(0)]
Positive = Annotated[float, Bounds(0, open_low=True)]
Share = Annotated[float, Bounds(0, 1)]
Decay = Annotated[float, Bounds(0, 1, open_high=True)]
Count = Annotated[int, Bounds(1, LARGEST)]
