"""Random search: settings drawn from ranges, each with every seed that is asked for.

References:
    Bergstra and Bengio 2012, "Random Search for Hyper-Parameter Optimization".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from askew.core import rng
from askew.core.arguments import check_fields, checked
from askew.core.bounds import Count
from askew.core.errors import AskewError

SEED = "seed"  # is not drawn: a setting is worth its mean over seeds
_RANGE = re.compile(r"(log|uniform|whole)\(([^,()]+),([^,()]+)\)")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high` to draw from.

    Args:
        kind: "log": evenly in the logarithm, for rates; "uniform": evenly; "whole": whole numbers, both ends included.

    Example:
        >>> Range.of("log(0.001, 1)"), Range.of("0.1") is None
        (Range(kind='log', low=0.001, high=1.0), True)
    """

    kind: Literal["log", "uniform", "whole"]
    low: float
    high: float

    def __post_init__(self) -> None:
        check_fields(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise AskewError(f"{self}: a range goes from a number up to a larger one")
        if self.kind == "log" and self.low <= 0:
            raise AskewError(f"{self}: a logarithm has no numbers from {self.low:g}; begin above 0, such as 0.001")
        if self.kind == "whole" and (self.low % 1 or self.high % 1):
            raise AskewError(f"{self}: whole takes whole numbers")

    @classmethod
    def of(cls, text: str) -> Range | None:
        """From `log(0.001,1)`; None for a text that is no range."""
        match = _RANGE.fullmatch(text.strip())
        if match is None:
            return None
        try:
            low, high = float(match[2]), float(match[3])
        except ValueError:
            raise AskewError(f"--grid: {text} is no range of numbers; write {match[1]}(0.001,1)") from None
        kind: Any = match[1]
        return cls(kind, low, high)

    def __str__(self) -> str:
        return f"{self.kind}({self.low:g},{self.high:g})"

    def at(self, share: float) -> float | int:
        """The number at a share of the range from 0 to 1; three digits are enough for a person to read."""
        if self.kind == "whole":
            return int(self.low) + min(int(share * (self.high - self.low + 1)), int(self.high - self.low))
        if self.kind == "log":
            return float(f"{self.low * (self.high / self.low) ** share:.3g}")
        return float(f"{self.low + share * (self.high - self.low):.3g}")


@checked
def random_settings(axes: Mapping[str, Range | Sequence[Any]], number: Count, seed: int = 0) -> list[dict[str, Any]]:
    """Settings drawn at random, no two alike, each with every value of `seed`; the first ones of a longer search are
    the same.

    Args:
        axes: address of a setting -> a range, or values of which one is drawn.
        number: how many to draw.
        seed: of the draws.

    Example:
        >>> for setting in random_settings({"sgd.lr": Range("log", 0.001, 1), "seed": [0, 1]}, 2):
        ...     setting
        {'sgd.lr': 0.139, 'seed': 0}
        {'sgd.lr': 0.139, 'seed': 1}
        {'sgd.lr': 0.276, 'seed': 0}
        {'sgd.lr': 0.276, 'seed': 1}
    """
    seeds = axes.get(SEED, ())
    if isinstance(seeds, Range):
        raise AskewError(f"--grid: seed={seeds} would train every setting with another seed; name them: seed=0,1,2")
    settings: list[dict[str, Any]] = []
    known: set[str] = set()
    again = 0  # draws since the last new setting; the same run again is no further evidence
    for at in itertools.count():
        draw = np.random.Generator(np.random.Philox(rng.int_seed(seed, "search", at)))
        drawn = {key: axis.at(float(draw.random())) if isinstance(axis, Range) else
                 axis[int(draw.integers(len(axis)))] for key, axis in axes.items() if key != SEED}
        if repr(drawn) in known:
            again += 1
            if again > 1000 + 20 * len(known):
                raise AskewError(f"--random: {number} different settings are asked for, and these ranges and lists "
                                 f"hold {len(known)}; draw fewer, or widen them")
            continue
        known.add(repr(drawn))
        again = 0
        settings += [{**drawn, SEED: value} for value in seeds] if seeds else [drawn]
        if len(known) == number:
            break
    return settings
