"""A fair contest against tuned FedAvg: successive halving, fresh seeds, and no look at the test set before the end.

    1. all settings of all methods, one seed, a quarter of the rounds: the best few of each method stay, of FedAvg twice
       as many
    2. these, some seeds, all rounds: the best of each method is its finalist
    3. finalists on fresh seeds: who is nominated
    4. the nominee and FedAvg on fresh seeds again: the gain that is told

Settings and nominee are chosen by training examples that no client trains on. Nothing here knows how a trial is
trained: a `Trainer` is asked for scores, and may look them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from askew.advice.candidates import OPPONENT, Candidate
from askew.advice.gains import Gain, Scale, Score, chance_best
from askew.core.errors import AskewError

# Where the seeds of the later steps begin, counted from the first of all: no step sees another one's.
COMPARISON, CONFIRMATION = 1_000, 2_000
Scores = Mapping[tuple[str, int], Score]


class Trainer(Protocol):
    """Whoever can say what candidates come to."""

    def __call__(self, candidates: Sequence[Candidate], seeds: Sequence[int], rounds: int) -> Scores:
        """(key of a candidate, seed) -> its score after so many rounds, for each of both."""


@dataclass(frozen=True)
class Plan:
    """How much is tried.

    Args:
        rounds: of a whole trial.
        first_share: part of the rounds after which most settings go.
        keep: settings of each method that stay then; twice as many of FedAvg, since every gain is measured against it,
            and it is what is handed out where no remedy is needed.
        selection, comparison, confirmation: seeds of steps 2, 3 and 4. By default 3, 6 and 12: at step 2 noise may cost
            a setting, at step 3 a nominee, at step 4 it decides.
    """

    rounds: int
    first_share: float = 0.25
    keep: int = 2
    selection: int = 3
    comparison: int = 6
    confirmation: int = 12

    @property
    def first_rounds(self) -> int:
        return max(1, round(self.first_share * self.rounds))

    def kept(self, method: str) -> int:
        """Settings of a method that stay after the first step."""
        return 2 * self.keep if method == OPPONENT else self.keep

    def trials(self, settings: Mapping[str, int]) -> dict[str, float]:
        """Method -> whole trials that it costs, the last step not counted.

        Example:
            >>> Plan(rounds=20).trials({"fedavg": 8, "fedprox": 8})  # 8 / 4 + 4 * 3 + 6, 8 / 4 + 2 * 3 + 6
            {'fedavg': 20.0, 'fedprox': 14.0}
        """
        return {method: (number * self.first_rounds / self.rounds if number > self.kept(method) else 0.0)
                + (min(number, self.kept(method)) * self.selection if number > 1 else 0) + self.comparison
                for method, number in settings.items()}


@dataclass(frozen=True)
class Entry:
    """One method's way through the contest.

    Args:
        finalist: its best setting by held-out examples.
        held_out: its gain on these, on fresh seeds: what it can be nominated by.
        gain: on the test data, on fresh seeds; of the nominee, on those of the last step.
        chance: of being best.
    """

    method: str
    finalist: Candidate
    held_out: Gain
    gain: Gain
    chance: float


@dataclass(frozen=True)
class Contest:
    """How it went.

    Args:
        entries: the highest gain on the test data first; FedAvg is not among them.
        opponent: tuned FedAvg.
        nominee: the method that was measured again, where one was nominated.
        chosen: the method to use; None: no remedy is needed.
        dropped: method -> why it is out.
        runs, rounds: that were trained.
    """

    entries: tuple[Entry, ...]
    opponent: Candidate
    nominee: str | None
    chosen: str | None
    margin: float
    chance_of_opponent: float
    dropped: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0
    rounds: int = 0

    def entry(self, method: str) -> Entry:
        return next(entry for entry in self.entries if entry.method == method)


class _Counting:
    """A trainer that counts what it is asked for."""

    def __init__(self, train: Trainer) -> None:
        self._train, self.runs, self.rounds = train, 0, 0

    def __call__(self, candidates: Sequence[Candidate], seeds: Sequence[int], rounds: int) -> Scores:
        self.runs += len(candidates) * len(seeds)
        self.rounds += len(candidates) * len(seeds) * rounds
        return self._train(candidates, seeds, rounds)


def hold(candidates: Mapping[str, Sequence[Candidate]], train: Trainer, plan: Plan, scale: Scale, *,
         demands: Mapping[str, tuple[float, ...]], margin: float = 1.0, seed: int = 0) -> Contest:
    """Hold a contest.

    Args:
        candidates: method -> its settings; tuned FedAvg, the opponent, must be among them.
        demands: method -> what it asks for, as numbers of which the first that differs decides who asks for less.
        margin: how much a remedy must gain to be worth it, in the scale's unit.
        seed: the first of all.
    """
    counting = _Counting(train)
    finalists, dropped = _finalists(candidates, counting, plan, scale, seed)
    if OPPONENT not in finalists:
        raise AskewError(f"advise: {OPPONENT} diverged at every rate that was tried; start from a recipe with a "
                         "smaller one")
    seeds = [seed + COMPARISON + i for i in range(plan.comparison)]
    scores = counting(list(finalists.values()), seeds, plan.rounds)
    opponent = finalists[OPPONENT]

    def gain_of(method: str, on: str, scores: Scores, seeds: Sequence[int]) -> np.ndarray:
        both = ([getattr(scores[candidate.key, s], on) for s in seeds] for candidate in (finalists[method], opponent))
        return scale.gains(*both)

    others = [method for method in finalists if method != OPPONENT]
    by_held_out = {method: gain_of(method, "held_out", scores, seeds) for method in others}
    broke = {method: _broken(finalists[method], scores, seeds) for method in others}
    held_out = {method: Gain.of(by_held_out[method], broke[method]) for method in others}
    gains = {method: Gain.of(gain_of(method, "test", scores, seeds), broke[method]) for method in others}
    chances = chance_best({OPPONENT: np.zeros(len(seeds)), **by_held_out}, seed)
    nominee = nominate(held_out, demands, margin)
    chosen = None
    if nominee is not None:
        last = [seed + CONFIRMATION + i for i in range(plan.confirmation)]
        again = counting([finalists[nominee], opponent], last, plan.rounds)
        gains[nominee] = Gain.of(gain_of(nominee, "test", again, last), _broken(finalists[nominee], again, last))
        chosen = nominee if gains[nominee].low > margin and not gains[nominee].broke_off else None
    entries = [Entry(method, finalists[method], held_out[method], gains[method], chances[method]) for method in others]
    entries.sort(key=lambda entry: -entry.gain.mean if np.isfinite(entry.gain.mean) else np.inf)
    return Contest(tuple(entries), opponent, nominee, chosen, margin, chances[OPPONENT], dropped, counting.runs,
                   counting.rounds)


def nominate(held_out: Mapping[str, Gain], demands: Mapping[str, tuple[float, ...]], margin: float) -> str | None:
    """Who is worth being measured again: the least demanding of those within the margin of the best; None where the
    best itself gains less than the margin, or broke off.

    A method that asks for more has to earn it: by the margin, as the first has against FedAvg.

    Example:
        >>> gain = {name: Gain.of(np.array([value, value])) for name, value in {"a": 5.0, "b": 4.5, "c": 2.0}.items()}
        >>> nominate(gain, {"a": (1.0,), "b": (0.0,), "c": (0.0,)}, margin=1.0)
        'b'
        >>> nominate(gain, {"a": (1.0,), "b": (0.0,), "c": (0.0,)}, margin=6.0) is None
        True
    """
    able = {method: gain.mean for method, gain in held_out.items() if not gain.broke_off and gain.mean >= margin}
    if not able:
        return None
    near = [method for method, mean in able.items() if mean >= max(able.values()) - margin]
    return min(near, key=lambda method: (demands[method], -able[method]))


def _broken(candidate: Candidate, scores: Scores, seeds: Sequence[int]) -> int:
    """Seeds of which it has no score."""
    return sum(bool(np.isnan(scores[candidate.key, s].test)) for s in seeds)


def _finalists(candidates: Mapping[str, Sequence[Candidate]], train: Trainer, plan: Plan, scale: Scale,
               seed: int) -> tuple[dict[str, Candidate], dict[str, str]]:
    """Each method's best setting, and why methods have none."""
    staying = {method: list(settings) for method, settings in candidates.items()}
    many = {method: settings for method, settings in staying.items() if len(settings) > plan.kept(method)}
    dropped: dict[str, str] = {}
    if many:
        scores = train([c for settings in many.values() for c in settings], [seed], plan.first_rounds)
        for method, settings in many.items():
            ranked = sorted(settings, key=lambda c: scale.best_first(scores[c.key, seed].held_out))
            staying[method] = [c for c in ranked[: plan.kept(method)] if not np.isnan(scores[c.key, seed].held_out)]
            if not staying[method]:
                dropped[method] = f"diverged at every one of {len(settings)} settings"
    several = [c for settings in staying.values() if len(settings) > 1 for c in settings]
    seeds = [seed + i for i in range(plan.selection)]
    scores = train(several, seeds, plan.rounds) if several else {}

    def worth(candidate: Candidate) -> tuple[int, float]:
        """Fewest seeds that broke off, then the mean."""
        known = [scores[candidate.key, s].held_out for s in seeds]
        finite = [value for value in known if not np.isnan(value)]
        return len(known) - len(finite), scale.best_first(float(np.mean(finite)) if finite else np.nan)

    finalists = {}
    for method, settings in staying.items():
        if not settings:
            continue
        best = settings[0] if len(settings) == 1 else min(settings, key=worth)
        if len(settings) > 1 and worth(best)[0] == len(seeds):
            dropped[method] = f"diverged with every one of {len(seeds)} seeds"
        else:
            finalists[method] = best
    return finalists, dropped
