"""What a comparison of methods came to, over seeds and rounds."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from askew.core.recipe import Recipe
from askew.runs.judge import Judge, measured
from askew.runs.result import Result

CEILING_SHARE = 0.95  # the default target: this much of what training in one place reaches (or of the best, without it)


@dataclass(frozen=True)
class Contender:
    """One method of a comparison.

    Args:
        label: how the caller named it, e.g. `fedprox(mu=0.1)`.
        recipe: what it runs, but for the seed.
        personal: whether devices choose among several models.
        is_ceiling: whether it trains on all data in one place.
        results: of the seeds that finished, diverged or failed.
    """

    label: str
    recipe: Recipe
    personal: bool = False
    is_ceiling: bool = False
    results: tuple[Result, ...] = ()

    @cached_property
    def finished(self) -> list[Result]:
        """Of the seeds that reached their last round."""
        return [result for result in self.results if result.finished]

    def accuracies(self, judge: Judge) -> list[float]:
        """After the last round, one per finished seed."""
        return [measured(result.evaluations[-1], judge) for result in self.finished]

    def mean(self, judge: Judge) -> float | None:
        return float(np.mean(self.accuracies(judge))) if self.finished else None

    def std(self, judge: Judge) -> float | None:
        """Sample standard deviation over seeds; one seed has none."""
        return float(np.std(self.accuracies(judge), ddof=1)) if len(self.finished) > 1 else None

    def curve(self, judge: Judge) -> tuple[list[int], np.ndarray]:
        """Evaluated rounds, and the accuracies of the seeds in them, shape (seeds, rounds)."""
        rounds = [record["round"] for record in self.finished[0].evaluations] if self.finished else []
        values = [[measured(record, judge) for record in result.evaluations] for result in self.finished]
        return rounds, np.array(values).reshape(len(self.finished), len(rounds))

    def best(self, judge: Judge) -> tuple[int, float] | None:
        """The round in which the mean over seeds is highest, and that mean."""
        if not self.finished:
            return None
        rounds, values = self.curve(judge)
        at = int(values.mean(axis=0).argmax())
        return rounds[at], float(values.mean(axis=0)[at])

    def rounds_to(self, target: float, judge: Judge) -> list[int | None]:
        """For each finished seed, the first round that reached an accuracy."""
        return [next((record["round"] for record in result.evaluations if measured(record, judge) >= target), None)
                for result in self.finished]

    @property
    def bytes(self) -> float | None:
        """Sent in both directions over a run, mean over seeds; training in one place sends nothing."""
        if self.is_ceiling or not self.finished:
            return 0.0 if self.is_ceiling else None
        return float(np.mean([result.total("bytes_up") + result.total("bytes_down") for result in self.finished]))

    @property
    def dropped(self) -> float | None:
        """Updates left out over a run, mean over seeds; None where none was."""
        counts = [sum(result.dropped.values()) for result in self.finished]
        return float(np.mean(counts)) if any(counts) else None

    @property
    def seconds(self) -> float | None:
        """Of a run, mean over seeds; of runs that trained together, each one's share."""
        return float(np.mean([result.seconds / result.together for result in self.finished])) if self.finished else None


@dataclass(frozen=True)
class Comparison:
    """What came of it.

    Args:
        contenders: in the order given.
        seeds: asked for.
        judge: "global": accuracy on the test set; "devices": mean over the clients of the accuracy on data such as
            each one's own. One measure for all.
        asked_target: the target, where the caller named one.
        majority: device accuracy of answering, on each device, always with its most frequent class.
        seconds: wall time of everything.
        interrupted: whether Ctrl-C ended it.
    """

    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    judge: Judge
    asked_target: float | None = None
    majority: float | None = None
    seconds: float = 0.0
    interrupted: bool = False
    folder: Path | None = None

    def named(self, name: str) -> Contender | None:
        """The first contender whose recipe has that name."""
        return next((c for c in self.contenders if c.recipe.name == name), None)

    @cached_property
    def target(self) -> float | None:
        """The accuracy that rounds are counted to."""
        if self.asked_target is not None:
            return self.asked_target
        ceiling = next((c for c in self.contenders if c.is_ceiling), None)
        means = [c.mean(self.judge) for c in ([ceiling] if ceiling else self.contenders)]
        return max((CEILING_SHARE * mean for mean in means if mean is not None), default=None)

    @property
    def target_is(self) -> str:
        if self.asked_target is not None:
            return "as asked"
        return f"{CEILING_SHARE:.0%} of {'centralised' if any(c.is_ceiling for c in self.contenders) else 'the best'}"

    def gap_closed(self, contender: Contender) -> float | None:
        """How much of FedAvg's loss against training in one place one global model wins back (1: all of it)."""
        low, high = (c.mean(self.judge) if c else None for c in (self.named("fedavg"), self.named("centralised")))
        mean = contender.mean(self.judge)
        if low is None or high is None or mean is None or high <= low or contender.is_ceiling or contender.personal:
            return None
        return (mean - low) / (high - low)

    def as_mapping(self) -> dict[str, Any]:
        """All numbers, for `--json` and for table.json."""
        recipe = self.contenders[0].recipe
        federation = next((c.recipe for c in self.contenders if not c.is_ceiling), recipe)
        return {"data": str(recipe.data), "population": str(federation.population), "rounds": recipe.rounds,
                "seeds": list(self.seeds), "judge": self.judge, "target": self.target, "target_is": self.target_is,
                "majority_class_accuracy": self.majority, "interrupted": self.interrupted,
                "seconds": round(self.seconds, 3), "run": None if self.folder is None else str(self.folder),
                "methods": [self._row(contender) for contender in self.contenders]}

    def _row(self, c: Contender) -> dict[str, Any]:
        reached = [] if self.target is None else c.rounds_to(self.target, self.judge)
        everyone = [r for r in reached if r is not None] if reached and None not in reached else []
        best = c.best(self.judge)
        return {
            "name": c.label, "method": c.recipe.name, "personal": c.personal, "in_one_place": c.is_ceiling,
            "accuracy_mean": c.mean(self.judge), "accuracy_std": c.std(self.judge),
            "accuracies": c.accuracies(self.judge),
            "test_accuracy_mean": c.mean("global"), "test_accuracy_std": c.std("global"),
            "best_round": best and best[0], "best_accuracy": best and best[1],
            "rounds_to_target": float(np.mean(everyone)) if everyone else None, "rounds_to_target_by_seed": reached,
            "gap_closed": self.gap_closed(c), "bytes": c.bytes, "dropped": c.dropped, "seconds": c.seconds,
            "seeds": [result.recipe.seed for result in c.finished],
            "diverged": [{"seed": result.recipe.seed, "reason": result.diverged}
                         for result in c.results if result.diverged is not None],
            "failed": [{"seed": result.recipe.seed, "reason": result.failed}
                       for result in c.results if result.failed is not None],
            "runs": [str(result.folder) for result in c.finished if result.folder],
            "settings": {key: value for key, value in tomllib.loads(c.recipe.to_toml()).items() if key != "seed"},
        }
