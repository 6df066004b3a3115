"""Trials that are trained: those of equal shape together, those of an earlier session read from a journal."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from askew.advice.candidates import Candidate
from askew.advice.contest import Scores
from askew.advice.gains import Score
from askew.core import interrupt
from askew.core.errors import AskewError
from askew.core.files import MEGABYTE, read_text
from askew.core.recipe import Recipe
from askew.rounds.record import Record
from askew.runs.cluster import Cluster
from askew.runs.configuration import Configuration, Means
from askew.runs.driver import drive
from askew.runs.result import Result

JOURNAL = "trials.jsonl"
LARGEST = 64 * MEGABYTE  # of a journal: a trial takes about 150 bytes
AT_ONCE = 48  # trials per computation: more cost no less each, and what is stopped loses more of them


class OutOfTime(Exception):
    """The budget is spent, or Ctrl-C came; what was finished is in the journal."""

    def __init__(self, by_hand: bool) -> None:
        self.by_hand = by_hand


class Trials:
    """A trainer for contests.

    Args:
        means: with what they are trained.
        until: monotonic time at which the budget ends; None: never.
        journal: a file of finished trials, which grows; nothing is written without one.
        on_round: as in `drive`, without the number.
        cluster: as in `drive`.
    """

    def __init__(self, means: Means, until: float | None = None, journal: Path | None = None,
                 on_round: Callable[[Record, Recipe], None] | None = None, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._means, self.until, self._journal, self._on_round = means, until, journal, on_round
        self._known: dict[tuple[str, int, int], Score] = {}
        self.seconds = 0.0
        if journal is not None and journal.exists():
            self._known = read_journal(journal)

    def __call__(self, candidates: Sequence[Candidate], seeds: Sequence[int], rounds: int) -> Scores:
        wanted = {(candidate.key, seed): candidate.recipe.replace(seed=seed, rounds=rounds, evaluate_every=rounds,
                                                                  stop_after_no_gain=rounds)
                  for candidate in candidates for seed in seeds}
        places = {key: (_place(recipe), recipe.seed, rounds) for key, recipe in wanted.items()}
        left = [key for key in wanted if places[key] not in self._known]
        for start in range(0, len(left), AT_ONCE):
            part = left[start : start + AT_ONCE]
            for key, result in zip(part, self.results([wanted[key] for key in part]), strict=True):
                self._add(places[key], score_of(result))
        for key in wanted.keys() - set(left):
            self._tell_known(wanted[key])
        return {key: self._known[place] for key, place in places.items()}

    def results(self, recipes: Sequence[Recipe]) -> list[Result]:
        """Train these, whole; what is stopped is no result."""
        limit = None if self.until is None else max(0.0, self.until - time.monotonic())

        def on_round(_: int, record: Record, recipe: Recipe) -> None:
            if self._on_round is not None:
                self._on_round(record, recipe)

        began = time.monotonic()
        results = drive([Configuration(recipe) for recipe in recipes], self._means, keep=False, limit_s=limit,
                        on_round=on_round, cluster=self._cluster)
        self.seconds += time.monotonic() - began
        if any(result.interrupted for result in results):
            raise OutOfTime(by_hand=limit is None or time.monotonic() - began < limit or interrupt.came())
        return results

    def _add(self, place: tuple[str, int, int], score: Score) -> None:
        self._known[place] = score
        if self._journal is not None:
            numbers = [None if math.isnan(value) else value for value in (score.held_out, score.test)]
            with self._journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*place, *numbers]) + "\n")

    def _tell_known(self, recipe: Recipe) -> None:
        """Rounds of an earlier session, so that progress counts them."""
        if self._on_round is not None:
            for _ in range(recipe.rounds):
                self._on_round({}, recipe)


def score_of(result: Result, at: int | None = None) -> Score:
    """Of the last round, or of the one numbered `at`; NaN where training broke off before."""
    if at is None and not result.finished:
        return Score(math.nan, math.nan)
    records = [record for record in result.evaluations if at is None or record["round"] == at]
    if not records:
        return Score(math.nan, math.nan)
    held_out, test = records[-1].get(f"held_out_{result.headline}", math.nan), records[-1][result.headline]
    # Six digits: means of equal scores are then equal, and a tie is one, whoever added them up.
    return Score(float(f"{held_out:.6g}"), float(f"{test:.6g}"))


def read_journal(path: Path) -> dict[tuple[str, int, int], Score]:
    """Finished trials; a last line that was cut off while it was written is left out."""
    known = {}
    lines = read_text(path, "journal of trials", LARGEST).splitlines()
    for number, line in enumerate(lines, 1):
        try:
            place, seed, rounds, held_out, test = json.loads(line)
            known[str(place), int(seed), int(rounds)] = Score(*(math.nan if value is None else float(value)
                                                                for value in (held_out, test)))
        except (ValueError, TypeError, RecursionError, OverflowError):  # a thousand brackets, 1e999 as a seed
            if number < len(lines):
                raise AskewError(f"{str(path)!r} is damaged in line {number}; name another folder") from None
    return known


def _place(recipe: Recipe) -> str:
    """What a trial is, whatever the contest calls it: its recipe, without what differs between rungs and seeds."""
    return recipe.replace(rounds=1, evaluate_every=1, stop_after_no_gain=1).fingerprint
