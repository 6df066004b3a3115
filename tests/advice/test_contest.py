"""The contest with trials that are drawn, not trained: who wins, on which seeds; the test set chooses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest

from askew.advice.candidates import Candidate
from askew.advice.contest import COMPARISON, CONFIRMATION, Plan, hold, nominate
from askew.advice.gains import Gain, Scale, Score
from askew.core.errors import AskewError
from askew.core.recipe import Recipe

RECIPE = Recipe()
PLAN = Plan(rounds=20)


class Drawn:
    """Scores around a setting's own worth, with noise that seeds share: part of it is the seed's, for all alike."""

    def __init__(self, worth: dict[str, float], noise: float = 0.01,
                 test_bonus: dict[str, float] | None = None) -> None:
        self.worth, self.noise, self.bonus = worth, noise, test_bonus or {}
        self.asked: list[tuple[tuple[str, ...], tuple[int, ...], int]] = []

    def __call__(self, candidates: Sequence[Candidate], seeds: Sequence[int],
                 rounds: int) -> dict[tuple[str, int], Score]:
        self.asked.append((tuple(c.key for c in candidates), tuple(seeds), rounds))
        return {(c.key, s): self.score(c, s) for c in candidates for s in seeds}

    def score(self, candidate: Candidate, seed: int) -> Score:
        common = np.random.default_rng(seed).normal(0, 0.03)
        own = np.random.default_rng([seed, crc32(candidate.key.encode())]).normal(0, self.noise, 2)
        worth = self.worth.get(candidate.key, self.worth.get(candidate.method, np.nan))
        return Score(worth + common + own[0], worth + common + own[1] + self.bonus.get(candidate.method, 0.0))


def settings(*methods: str, number: int = 8) -> dict[str, list[Candidate]]:
    return {method: [Candidate(method, str(i), RECIPE) for i in range(number)] for method in methods}


DEMANDS = {"fedavg": (0.0,), "cheap": (0.0,), "dear": (1.0,), "worse": (0.0,)}


def test_the_better_method_wins_with_its_best_setting() -> None:
    train = Drawn({"fedavg": 0.80, "dear": 0.80, "dear 5": 0.90, "worse": 0.70})
    contest = hold(settings("fedavg", "dear", "worse"), train, PLAN, Scale(), demands=DEMANDS)
    assert contest.chosen == contest.nominee == "dear"
    assert contest.entry("dear").finalist.setting == "5"
    assert contest.entry("dear").gain.mean == pytest.approx(10, abs=1)
    assert contest.entry("dear").gain.seeds == PLAN.confirmation
    assert [entry.method for entry in contest.entries] == ["dear", "worse"]
    assert contest.entry("dear").chance == 1


def test_steps_have_seeds_of_their_own_and_the_budget_is_halved() -> None:
    train = Drawn({"fedavg": 0.80, "dear": 0.90, "worse": 0.70})
    contest = hold(settings("fedavg", "dear", "worse"), train, PLAN, Scale(), demands=DEMANDS, seed=7)
    first, second, third, fourth = train.asked
    assert (len(first[0]), first[1], first[2]) == (24, (7,), 5)  # all settings, one seed, a quarter of the rounds
    assert (len(second[0]), second[1], second[2]) == (8, (7, 8, 9), 20)  # four of FedAvg, two of each other
    assert sum(key.startswith("fedavg") for key in second[0]) == 4
    assert (len(third[0]), third[1]) == (3, tuple(range(7 + COMPARISON, 13 + COMPARISON)))
    assert (len(fourth[0]), fourth[1]) == (2, tuple(range(7 + CONFIRMATION, 19 + CONFIRMATION)))
    assert fourth[0][1].startswith("fedavg")
    assert contest.runs == 24 + 24 + 18 + 24
    assert contest.rounds == 24 * 5 + 66 * 20
    spent = PLAN.trials({"fedavg": 8, "dear": 8, "worse": 8})
    assert sum(spent.values()) * 20 == contest.rounds - 24 * 20  # the plan's sum, but for the last step


def test_the_test_set_chooses_nothing() -> None:
    """A method that is good on the test set alone is never nominated; one that is bad there alone is, and found out."""
    worth = {"fedavg": 0.80, "cheap": 0.80, "dear": 0.90}
    lucky = hold(settings("fedavg", "cheap"), Drawn(worth, test_bonus={"cheap": 0.1}), PLAN, Scale(), demands=DEMANDS)
    assert lucky.nominee is None
    unlucky = Drawn(worth, test_bonus={"dear": -0.1})
    found_out = hold(settings("fedavg", "dear"), unlucky, PLAN, Scale(), demands=DEMANDS)
    assert (found_out.nominee, found_out.chosen) == ("dear", None)


@pytest.mark.parametrize(("cheap", "dear", "nominee"), [
    (0.90, 0.905, "cheap"), (0.82, 0.90, "dear"), (0.80, 0.80, None), (0.90, 0.80, "cheap")])
def test_more_is_asked_for_only_where_it_pays(cheap: float, dear: float, nominee: str | None) -> None:
    train = Drawn({"fedavg": 0.80, "cheap": cheap, "dear": dear}, noise=0.001)
    assert hold(settings("fedavg", "cheap", "dear"), train, PLAN, Scale(), demands=DEMANDS).nominee == nominee


def test_without_a_difference_false_alarms_are_rare() -> None:
    """Nine methods as good as FedAvg, noise of two points per seed: at most a few of a hundred contests name one."""
    names = [f"m{i}" for i in range(9)]
    demands = {name: (float(i),) for i, name in enumerate(["fedavg", *names])}
    alarms = 0
    for at in range(30):
        train = Drawn(dict.fromkeys(["fedavg", *names], 0.8), noise=0.02)
        alarms += hold(settings("fedavg", *names, number=2), train, PLAN, Scale(), demands=demands,
                       seed=10_000 * at).chosen is not None
    assert alarms <= 1


def test_what_diverges_does_not_win() -> None:
    class Diverging(Drawn):
        def score(self, candidate: Candidate, seed: int) -> Score:
            if candidate.method == "dear" or (candidate.method == "cheap" and seed >= COMPARISON and seed % 2):
                return Score(np.nan, np.nan)
            return super().score(candidate, seed)

    contest = hold(settings("fedavg", "cheap", "dear"), Diverging({"fedavg": 0.8, "cheap": 0.9}), PLAN, Scale(),
                   demands=DEMANDS)
    assert contest.chosen is None
    assert contest.dropped == {"dear": "diverged at every one of 8 settings"}
    assert contest.entry("cheap").gain.broke_off == 3


def test_fedavg_that_diverges_is_told() -> None:
    with pytest.raises(AskewError, match="fedavg diverged at every rate that was tried; start from a recipe with a"):
        hold(settings("fedavg", "cheap"), Drawn({"cheap": 0.9}), PLAN, Scale(), demands=DEMANDS)


def test_errors_are_better_when_lower() -> None:
    train = Drawn({"fedavg": 2.0, "cheap": 1.0, "worse": 3.0})
    contest = hold(settings("fedavg", "cheap", "worse"), train, PLAN, Scale(False, False), demands=DEMANDS)
    assert contest.chosen == "cheap"
    assert contest.entry("cheap").gain.mean == pytest.approx(50, abs=2)


def test_one_setting_each_needs_no_selection() -> None:
    train = Drawn({"fedavg": 0.8, "cheap": 0.9})
    assert hold(settings("fedavg", "cheap", number=1), train, PLAN, Scale(), demands=DEMANDS).chosen == "cheap"
    assert len(train.asked) == 2


def test_nobody_is_nominated_who_broke_off() -> None:
    gains = {"a": Gain.of(np.array([9.0, 9.0]), broke_off=1), "b": Gain.of(np.array([2.0, 2.0]))}
    assert nominate(gains, {"a": (0.0,), "b": (1.0,)}, 1.0) == "b"
