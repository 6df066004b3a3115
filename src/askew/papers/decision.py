"""What our values say about a paper's claim."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from askew.papers.item import Claim
from askew.papers.values import Value
from askew.papers.verdict import SURE

Decision = Literal["holds", "fails", "open: within the noise", "open: runs diverged or ended at chance", "not measured"]
LOST: Decision = "open: runs diverged or ended at chance"
PAIRED = 3  # seeds that all rows of an inequality have, from which on it is judged seed by seed
FAR = 1e6  # from any value of ours
BY_CHANCE = 1 - statistics.NormalDist().cdf(SURE)  # how often a value is off by more than twice its noise to one side


class Margin(NamedTuple):
    """By how much an inequality is met, how far that may be off, and the degrees of freedom of that; None: known."""

    value: float
    spread: float
    freedom: int | None


def decide(claim: Claim, values: Mapping[str, Value]) -> Decision:
    """Whether a claim holds, by more than the noise of our values.

    One inequality that is missed is enough for a claim to fail, whatever the rows say that are not measured yet. One of
    many is missed by chance sooner than a single one: of m, each has to be missed by so much that chance does it in an
    m-th of the cases (Bonferroni). Those that are met need no such care: they have to be met all together.

    Where all rows that an inequality hangs on have three seeds or more in common, and each at least half of its own,
    its noise is how far it moves when one of these seeds is left out (the jackknife: of a difference, the standard
    error of the mean difference), with Student's t for so few: runs of one seed share clients, first weights and test
    images, so that their differences scatter less than they do. Else an inequality's noise is what its margin changes
    by when one value after another is moved by its own noise, root of the sum of squares: a margin a - b of values with
    noise 3 and 4 has 5.

    Args:
        claim: its inequalities.
        values: row -> what was measured.
    """
    ours, noise = _evidence(claim, values)
    missing = missing_rows(claim, ours)
    number = len(claim.met_by({**ours, **dict.fromkeys(missing, 0.0)}))
    of_all = BY_CHANCE / number
    margins = _margins(claim, ours, noise, values, missing)
    if any(margin.value < -quantile(of_all, margin.freedom) * margin.spread for margin in margins):
        return "fails"
    if missing:
        lost = all(values.get(name, Value()).measured for name in missing)
        return LOST if lost else "not measured"
    met = len(margins) == number and all(  # one that is no number is not met
        margin.value > quantile(BY_CHANCE, margin.freedom) * margin.spread for margin in margins)
    return "holds" if met else "open: within the noise"


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


def _margins(claim: Claim, ours: Mapping[str, float], noise: Mapping[str, float], values: Mapping[str, Value],
             missing: Sequence[str]) -> list[Margin]:
    """Of each inequality that asks for no missing row."""
    # Two sets of values that no difference, ratio or largest value of some of them has in common
    low, high = ({**ours, **{name: start + step * at for at, name in enumerate(missing)}}
                 for start, step in ((-1e4, 7.7), (2e4, 31.1)))
    margins, others = claim.met_by(low), claim.met_by(high)
    known = [at for at, margin in enumerate(margins) if margin == others[at]]
    by_noise, rows = _noise(claim, low, noise, margins), _rows(claim, low, margins)
    by_seed = {name: values[name].by_seed for name in ours if values[name].counts}
    paired: dict[tuple[int, ...], list[Margin]] = {}
    result = []
    for at in known:
        seeds = _seeds_in_common([by_seed[name] for name in rows[at] if name in by_seed])
        if seeds and seeds not in paired:
            paired[seeds] = _by_jackknife(claim, low, by_seed, seeds)
        result.append(paired[seeds][at] if seeds else Margin(margins[at], by_noise[at], None))
    return result


def _rows(claim: Claim, ours: Mapping[str, float], margins: Sequence[float]) -> list[list[str]]:
    """The rows that each inequality hangs on: far up or far down, they move it."""
    result: list[list[str]] = [[] for _ in margins]
    for name in missing_rows(claim, {}):
        ways = [claim.met_by({**ours, name: ours[name] + shift}) for shift in (FAR, -FAR)]
        for at, margin in enumerate(margins):
            if any(way[at] != margin for way in ways):
                result[at].append(name)
    return result


def _seeds_in_common(rows: Sequence[Mapping[int, float]]) -> tuple[int, ...]:
    """None where they are few, or fewer than half of a row's."""
    seeds = sorted(set.intersection(*map(set, rows))) if rows else []
    return tuple(seeds) if len(seeds) >= max(PAIRED, max(map(len, rows), default=0) / 2) else ()


def _by_jackknife(claim: Claim, ours: Mapping[str, float], by_seed: Mapping[str, Mapping[int, float]],
                  seeds: Sequence[int]) -> list[Margin]:
    """Of the means over some seeds; not the mean of each seed's margins, which is off where these are no straight
    lines: the mean of |a - b| is above 0 for equal a and b."""
    having = {name: each for name, each in by_seed.items() if each.keys() >= set(seeds)}

    def of(kept: Sequence[int]) -> tuple[float, ...]:
        return claim.met_by({**ours, **{name: statistics.fmean(each[seed] for seed in kept)
                                        for name, each in having.items()}})

    number, whole = len(seeds), of(seeds)
    squares = [0.0] * len(whole)
    for out in seeds:
        for at, margin in enumerate(of([seed for seed in seeds if seed != out])):
            squares[at] += (margin - whole[at]) ** 2  # from the whole's: at the bend of |a - b|, all lie on one side
    return [Margin(margin, math.sqrt((number - 1) / number * square), number - 1)
            for margin, square in zip(whole, squares, strict=True)]


def quantile(above: float, freedom: int | None = None) -> float:
    """What Student's t exceeds with a probability; without degrees of freedom, the normal distribution's.

    Example: 1.96 for 2.5%, 4.30 with 2 degrees of freedom, 2.78 with 4.
    """
    if freedom is None:
        return statistics.NormalDist().inv_cdf(1 - above)
    low, high = 0.0, math.pi / 2  # the angle whose tangent is t / root of the degrees of freedom
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _beyond(angle, freedom) > above else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _beyond(angle: float, freedom: int) -> float:
    """The probability of a larger t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    for power in range(2 if freedom % 2 else 1, freedom, 2):
        total += term
        term *= cosine * cosine * power / (power + 1)
    within = 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total
    return (1 - within) / 2


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
    for name, spread in noise.items():
        # Both ways, since margins need not be straight lines: they may hold a largest or an absolute value.
        ways = [claim.met_by({**ours, name: ours[name] + shift}) for shift in (spread, -spread)]
        for at, margin in enumerate(margins):
            squares[at] += max(abs(way[at] - margin) for way in ways) ** 2
    return [square**0.5 for square in squares]
