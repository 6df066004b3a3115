"""Our number against the paper's.

within          |ours - paper| <= max(tolerance, sqrt(s_ours^2 + s_paper^2)), where s are standard deviations over seeds
                (0 where there is none) and the tolerance is 2 points for percentages, 10% of the paper's number for
                other units.
ordering holds  not within, but ours stands to every other measured row of the item on the side on which the paper's
                number stands. Pairs that the paper does not tell apart do not count: those whose printed numbers differ
                by less than a quarter of the tolerance (0.5 points) or less than their combined spread. Where no pair
                counts, or one counts of which the other's runs all diverged, nothing holds.
differs         neither; also where the paper prints a number and all our runs diverged.
None            not measured, or the paper prints no number.

Reduced versions are never within: they only show whether the ordering is seen.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal

from askew.reproduce.numbers import Printed
from askew.reproduce.store import Scale
from askew.reproduce.values import Value

Verdict = Literal["within", "ordering holds", "differs"]
VERDICTS: tuple[Verdict, ...] = ("within", "ordering holds", "differs")
POINTS = 2.0  # percentage points
RELATIVE = 0.1  # of numbers in other units


def verdicts(values: Mapping[str, Value], printed: Mapping[str, Printed], scale: Scale = "full") -> dict[str, Verdict | None]:
    """The verdict on each row of an item.

    Args:
        values: row -> what was measured.
        printed: row -> the paper's number.
        scale: at which the values were measured.
    """
    ours = {name: value.mean for name, value in values.items() if value.mean is not None}
    diverged = {name for name, value in values.items() if value.measured and value.mean is None}
    result: dict[str, Verdict | None] = {}
    for name, value in values.items():
        if name not in printed or not value.measured:
            result[name] = None
        elif value.mean is None:
            result[name] = "differs"
        elif scale == "full" and within(value.mean, value.spread, printed[name]):
            result[name] = "within"
        else:
            result[name] = "ordering holds" if ordering_holds(name, ours, printed, diverged) else "differs"
    return result


def within(ours: float, spread: float | None, paper: Printed) -> bool:
    """Whether a number is as near to the paper's as can be asked for."""
    return abs(ours - paper.value) <= max(_tolerance(paper), _combined(spread, paper.spread))


def ordering_holds(name: str, ours: Mapping[str, float], printed: Mapping[str, Printed], diverged: Collection[str] = ()) -> bool:
    """Whether a row stands to all others as in the paper; not to be said beside a row that has no number for having diverged."""
    mine = printed[name]
    if any(other in diverged and not _tied(mine, paper) for other, paper in printed.items() if other != name):
        return False
    pairs = [(ours[name] - ours[other], mine.value - paper.value) for other, paper in printed.items()
             if other != name and other in ours and not _tied(mine, paper)]
    return bool(pairs) and all(here * there > 0 for here, there in pairs)


def _tied(a: Printed, b: Printed) -> bool:
    apart = abs(a.value - b.value)
    return apart == 0 or apart < max(_tolerance(a), _tolerance(b)) / 4 or apart < _combined(a.spread, b.spread)


def _tolerance(paper: Printed) -> float:
    return POINTS if paper.unit == "%" else RELATIVE * abs(paper.value)


def _combined(a: float | None, b: float | None) -> float:
    return math.hypot(a or 0.0, b or 0.0)
