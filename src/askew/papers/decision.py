"""What our values say about a paper's claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from askew.papers.item import Claim
from askew.papers.values import Value
from askew.papers.verdict import SURE

Decision = Literal["holds", "fails", "open: within the noise", "open: runs diverged or ended at chance", "not measured"]
LOST: Decision = "open: runs diverged or ended at chance"


def decide(claim: Claim, values: Mapping[str, Value]) -> Decision:
    """Whether a claim holds, by more than the noise of our values.

    One inequality that is missed is enough for a claim to fail, whatever the rows say that are not measured yet.

    An inequality's noise is what its margin changes by when one value after another is moved by its own noise, root of
    the sum of squares: a margin a - b of values with noise 3 and 4 has 5.

    Args:
        claim: its inequalities.
        values: row -> what was measured.
    """
    ours = {name: value.mean for name, value in values.items() if value.mean is not None and value.counts}
    noise = {name: values[name].noise for name in ours}
    missing = missing_rows(claim, ours)
    margins = _margins(claim, ours, noise, missing)
    if any(margin < -SURE * spread for margin, spread in margins):
        return "fails"
    if missing:
        lost = all(values.get(name, Value()).measured for name in missing)
        return LOST if lost else "not measured"
    return "holds" if all(margin > SURE * spread for margin, spread in margins) else "open: within the noise"


def asks_for_lost(claim: Claim, values: Mapping[str, Value]) -> bool:
    """Whether a claim asks for a row of which a run diverged or ended at chance."""
    ours = {name: value.mean for name, value in values.items() if value.mean is not None and value.counts}
    return any(values.get(name, Value()).measured for name in missing_rows(claim, ours))


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


def _margins(claim: Claim, ours: Mapping[str, float], noise: Mapping[str, float],
             missing: Sequence[str]) -> list[tuple[float, float]]:
    """Margin and noise of each inequality that asks for no missing row."""
    if not missing:
        margins = claim.met_by(ours)
        return list(zip(margins, _noise(claim, ours, noise, margins), strict=True))
    # Two sets of values that no difference, ratio or largest value of some of them has in common
    low, high = ({**ours, **{name: start + step * at for at, name in enumerate(missing)}}
                 for start, step in ((-1e4, 7.7), (2e4, 31.1)))
    margins, others = claim.met_by(low), claim.met_by(high)
    known = [at for at, margin in enumerate(margins) if margin == others[at]]
    if all(margins[at] >= 0 for at in known):  # none can fail the claim, whatever its noise
        return [(margins[at], 0.0) for at in known]
    each = _noise(claim, low, noise, margins)
    return [(margins[at], each[at]) for at in known]


def _noise(claim: Claim, ours: Mapping[str, float], noise: Mapping[str, float],
           margins: tuple[float, ...]) -> list[float]:
    squares = [0.0] * len(margins)
    for name, spread in noise.items():
        # Both ways, since margins need not be straight lines: they may hold a largest or an absolute value.
        ways = [claim.met_by({**ours, name: ours[name] + shift}) for shift in (spread, -spread)]
        for at, margin in enumerate(margins):
            squares[at] += max(abs(way[at] - margin) for way in ways) ** 2
    return [square**0.5 for square in squares]
