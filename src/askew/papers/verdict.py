"""Our number against the paper's.

Our number is *within* if it is at most 2 points from the paper's and at most a fifth of the paper's number's distance
from 0 and from 100% (98% for 99% is twice the errors, and a gain is no reduction), or 10% where the unit is not per
cent; if its noise is no larger than that; and if it stands as in the paper to most of the rows that the paper tells
apart from it, because a table whose rows are all alike reproduces nothing. The *ordering holds* if it is farther off,
but stands as in the paper to all of those rows, at least two: of two rows one is always the higher. The paper tells
rows apart that have the same unit, measure and data set and differ by more than that tolerance and its own spread; two
of ours stand as in the paper if they differ the same way, by a quarter of the paper's gap or more and by more than
twice their noise. What is near without this, or whose distance its noise could explain, is *open*; the rest *differs*,
and so does every row of which a run diverged, and every accuracy at chance (12% or less of ten classes): it keeps no
order and decides no claim. A claim is a set of inequalities between our numbers: it holds if each is met by more than
twice its noise, fails if one is missed by more than that (one of m by so much that chance does it in an m-th of the
cases), whatever else is not measured yet, and is open otherwise; where all rows of an inequality have three seeds or
more in common, and each at least half of its own, its noise is how far it moves when one of these seeds is left out,
and Student's t tells by how many times that. Where a run that it asks for diverged or ended at chance, or where the
paper's grid takes more than could be trained, another set-up that stands in for the paper's may decide it, which is
then said; for a claim about which settings work, a run that diverged is one that does not. Noise is the standard error
over seeds; of one seed it is the swing of its last ten evaluations; that of an accuracy is at least sqrt(p (100 - p) /
test examples), 0.1 points at 99% of 10,000 images and 0.5 at 50%, and that of another number from one seed is 25%, the
ninth tenth of what results with several seeds show; fewer than five seeds have at least their share of it. What a
method's own rules bring about in every run has none.

Reduced versions are never within: they only show whether the ordering is seen. Rows without a printed number, and rows
that are not measured, have no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Literal

from askew.papers.item import Row
from askew.papers.numbers import Printed
from askew.papers.store import Scale
from askew.papers.values import Value

Verdict = Literal["within", "ordering holds", "open", "differs"]
VERDICTS: tuple[Verdict, ...] = ("within", "ordering holds", "open", "differs")  # best first
POINTS = 2.0  # percentage points
OF_THE_WAY = 0.2  # of a percentage's distance from 0 and from 100
RELATIVE = 0.1  # of numbers in other units
OF_THE_GAP = 0.25  # of the paper's gap between two rows
SURE = 2.0  # times the noise
DIGITS = 9  # of printed numbers and their differences, so that limits are met in decimals
FEWEST = 2  # rows to stand to, for an ordering


def rules() -> str:
    """The paragraph above, which the pages show."""
    return " ".join((__doc__ or "").split("\n\n")[1].split())


def kind(row: Row) -> Hashable:
    """What two rows must have in common to be compared: an accuracy is not a reduction, MNIST is not CIFAR-10."""
    return row.measure, bool(row.less_than), str(row.recipes[0].data) if row.recipes else ""


def verdicts(values: Mapping[str, Value], printed: Mapping[str, Printed], kinds: Mapping[str, Hashable] | None = None,
             scale: Scale = "full") -> dict[str, Verdict | None]:
    """The verdict on each row of an item.

    Args:
        values: row -> what was measured.
        printed: row -> the paper's number.
        kinds: row -> what rows that are compared have in common (`kind`), besides the unit; None: all are of one kind.
        scale: at which the values were measured.
    """
    of_kind = kinds or {}
    result: dict[str, Verdict | None] = {}
    for name, value in values.items():
        paper = printed.get(name)
        if paper is None or not value.measured:
            result[name] = None
            continue
        stands = [stands_as_printed(value, values[other], paper, other_paper) for other, other_paper in printed.items()
                  if other != name and other in values and values[other].measured
                  and of_kind.get(other) == of_kind.get(name) and told_apart(paper, other_paper)]
        result[name] = _verdict(value, paper, stands, scale)
    return result


def _verdict(value: Value, paper: Printed, stands: list[bool], scale: Scale) -> Verdict:
    if value.mean is None or not value.counts or not math.isfinite(value.mean):
        return "differs"
    allowed = tolerance(paper)
    distance = round(abs(value.mean - paper.value), DIGITS)
    # A number of no kin is judged by its distance alone.
    mostly_stands = not stands or 2 * sum(stands) > len(stands)
    if scale == "full" and distance <= allowed and value.noise <= allowed and mostly_stands:
        return "within"
    if len(stands) >= FEWEST and all(stands):
        return "ordering holds"
    unsure = distance <= allowed or (value.noise > allowed and distance <= SURE * value.noise)
    return "open" if scale == "full" and unsure else "differs"


def tolerance(paper: Printed) -> float:
    """How far ours may be from the paper's number.

    Example: 2 points at 60%; 0.2 at 99%, whose errors may be a fifth more or fewer; 1.3 at a reduction of 6.5%.
    """
    if paper.unit != "%":
        return round(RELATIVE * abs(paper.value), DIGITS)
    return round(min(POINTS, OF_THE_WAY * abs(paper.value), OF_THE_WAY * abs(100 - paper.value)), DIGITS)


def told_apart(a: Printed, b: Printed) -> bool:
    """Whether the paper's numbers differ by more than could be asked of ours, and by more than their spread."""
    apart = round(abs(a.value - b.value), DIGITS)  # 99.2 - 99 is a little more than 0.2 in binary
    return a.unit == b.unit and apart > max(tolerance(a), tolerance(b), math.hypot(a.spread or 0.0, b.spread or 0.0))


def stands_as_printed(ours: Value, other: Value, paper: Printed, other_paper: Printed) -> bool:
    """Whether two rows of ours differ as the paper's do; not where one of them is no evidence."""
    if ours.mean is None or other.mean is None or not ours.counts or not other.counts:
        return False
    gap = paper.value - other_paper.value
    distance = (ours.mean - other.mean) * math.copysign(1.0, gap)
    return distance >= OF_THE_GAP * abs(gap) and distance > SURE * math.hypot(ours.noise, other.noise)
