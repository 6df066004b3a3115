"""What our values say about a paper's claim."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from askew.papers.item import Claim
from askew.papers.values import Value
from askew.papers.verdict import SURE

Decision = Literal["holds", "fails", "open: within the noise", "open: runs diverged or ended at chance", "not measured"]
LOST: Decision = "open: runs diverged or ended at chance"
PAIRED = 3  # seeds that all rows of a claim have, from which on its margins are taken seed by seed
T_OF_FEW = {2: 4.3027, 3: 3.1824}  # Student's t at 97.5% by degrees of freedom


def decide(claim: Claim, values: Mapping[str, Value]) -> Decision:
    """Whether a claim holds, by more than the noise of our values.

    One inequality that is missed is enough for a claim to fail, whatever the rows say that are not measured yet.

    Where all rows that it asks for have three seeds or more in common, its margins are taken seed by seed, and their
    mean is judged by its 95% t interval: runs of one seed share clients, first weights and test images, so that their
    differences scatter less than they do. Else an inequality's noise is what its margin changes by when one value after
    another is moved by its own noise, root of the sum of squares: a margin a - b of values with noise 3 and 4 has 5.

    Args:
        claim: its inequalities.
        values: row -> what was measured.
    """
    ours, noise = _evidence(claim, values)
    missing = missing_rows(claim, ours)
    margins = _seed_by_seed(claim, ours, values) if not missing else []
    margins = margins or [(margin, SURE * spread) for margin, spread in _margins(claim, ours, noise, missing)]
    if any(margin < -bound for margin, bound in margins):
        return "fails"
    if missing:
        lost = all(values.get(name, Value()).measured for name in missing)
        return LOST if lost else "not measured"
    return "holds" if all(margin > bound for margin, bound in margins) else "open: within the noise"


def asks_for_lost(claim: Claim, values: Mapping[str, Value]) -> bool:
    """Whether a claim asks for a row of which a run diverged or ended at chance, and that is no evidence for it."""
    return any(values.get(name, Value()).measured for name in missing_rows(claim, _evidence(claim, values)[0]))


def _evidence(claim: Claim, values: Mapping[str, Value]) -> tuple[dict[str, float], dict[str, float]]:
    """Row -> what it counts for a claim, and how far that may be off."""
    ours = {name: value.mean for name, value in values.items() if value.mean is not None and value.counts}
    noise = {name: values[name].noise for name in ours}
    if claim.lost_counts is not None:
        lost = [name for name, value in values.items() if value.measured and not value.counts]
        ours |= dict.fromkeys(lost, claim.lost_counts)
        noise |= dict.fromkeys(lost, 0.0)
    return ours, noise


def _seed_by_seed(claim: Claim, ours: Mapping[str, float], values: Mapping[str, Value]) -> list[tuple[float, float]]:
    """Each inequality's mean margin over the seeds that all its rows have, and half its 95% interval; [] for few."""
    asked = missing_rows(claim, {})
    of_row = {name: values[name].by_seed for name in asked if values[name].counts}
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in of_row.values()))) if of_row else []
    if len(seeds) < PAIRED:
        return []
    margins = zip(*(claim.met_by({**ours, **{name: by_seed[seed] for name, by_seed in of_row.items()}})
                    for seed in seeds), strict=True)
    wide = t_quantile(len(seeds) - 1) / math.sqrt(len(seeds))
    return [(statistics.fmean(each), wide * statistics.stdev(each)) for each in margins]


def t_quantile(freedom: int) -> float:
    """Student's t at 97.5%, by its expansion in 1 / freedom around the normal's (Abramowitz and Stegun, 26.7.5).

    Example: 2.77 with 4 degrees of freedom (exactly 2.776), 1.98 with 100; with 2, where the expansion is 2% off, and 3
    it is as printed in tables.
    """
    if freedom in T_OF_FEW:
        return T_OF_FEW[freedom]
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
             (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
             (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160)
    return sum(term / freedom**power for power, term in enumerate(terms))


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
