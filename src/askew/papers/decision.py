"""What our values say about a paper's claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from askew.papers.item import Claim
from askew.papers.values import Value
from askew.papers.verdict import SURE

Decision = Literal["holds", "fails", "open: within the noise", "open: runs diverged or ended at chance", "not measured"]
LOST: Decision = "open: runs diverged or ended at chance"


def decide(claim: Claim, values: Mapping[str, Value]) -> Decision:
    """Whether a claim holds, by more than the noise of our values.

    An inequality's noise is what its margin changes by when one value after another is moved by its own noise, root of
    the sum of squares: a margin a - b of values with noise 3 and 4 has 5.

    Args:
        claim: its inequalities.
        values: row -> what was measured.
    """
    ours = {name: value.mean for name, value in values.items() if value.mean is not None and value.counts}
    missing = missing_rows(claim, ours)
    if missing:
        lost = all(values.get(name, Value()).measured for name in missing)
        return LOST if lost else "not measured"
    margins = claim.met_by(ours)
    noise = _noise(claim, ours, {name: values[name].noise for name in ours}, margins)
    if any(margin < -SURE * its for margin, its in zip(margins, noise, strict=True)):
        return "fails"
    if all(margin > SURE * its for margin, its in zip(margins, noise, strict=True)):
        return "holds"
    return "open: within the noise"


def missing_rows(claim: Claim, values: Mapping[str, float]) -> list[str]:
    """The rows that a claim asks for and that have no value."""
    missing: list[str] = []
    while True:
        try:
            claim.met_by({**values, **dict.fromkeys(missing, 0.0)})
        except KeyError as row:
            missing.append(str(row.args[0]))
        else:
            return missing


def _noise(claim: Claim, ours: Mapping[str, float], noise: Mapping[str, float],
           margins: tuple[float, ...]) -> list[float]:
    squares = [0.0] * len(margins)
    for name, its in noise.items():
        # Both ways, since margins need not be straight lines: they may hold a largest or an absolute value.
        ways = [claim.met_by({**ours, name: ours[name] + step}) for step in (its, -its)]
        for at, margin in enumerate(margins):
            squares[at] += max(abs(way[at] - margin) for way in ways) ** 2
    return [square**0.5 for square in squares]
