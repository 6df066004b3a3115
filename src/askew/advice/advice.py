"""What is advised, and all that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from askew.advice.contest import Contest, Entry
from askew.advice.facts import Facts
from askew.core import files
from askew.core.objective import Objective
from askew.core.recipe import Recipe

ADVICE, RECIPE = "advice.json", "recipe.toml"


@dataclass(frozen=True)
class Place:
    """Tuned FedAvg's headline somewhere: mean and standard deviation over seeds."""

    mean: float
    std: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Place:
        if not values:
            return cls(np.nan, np.nan, 0)
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else np.nan, len(values))


@dataclass(frozen=True)
class Cost:
    """What skew costs: FedAvg's headline on the whole test set, here, without skew, and in one place.

    Args:
        places: "here": the federation; "iid": its examples dealt at random to clients of the same sizes; "centralised":
            all training examples in one place.
    """

    PLACES: ClassVar = ("here", "iid", "centralised")
    places: Mapping[str, Place]
    objective: Objective

    def lost(self, place: str) -> float:
        """What the federation loses against another place: points of a share, else in the headline's own unit."""
        difference = self.places[place].mean - self.places["here"].mean
        sign, unit = 1 if self.objective.higher_is_better else -1, 100 if self.objective.is_share else 1
        return sign * unit * difference

    def as_mapping(self) -> dict[str, Any]:
        return {"headline": self.objective.headline,
                **{name: {"mean": place.mean, "std": place.std, "seeds": place.seeds}
                   for name, place in self.places.items()},
                "lost_to_skew": self.lost("iid"), "lost_to_federation": self.lost("centralised")}


@dataclass(frozen=True)
class Advice:
    """What is advised.

    Args:
        facts: of the federation.
        cost: of its skew.
        contest: how methods did.
        struck: method -> why it could not take part.
        demands: method -> what it asks for beyond FedAvg.
        recipe: of the method that is advised (of tuned FedAvg where no remedy is needed), on all of the clients'
            examples.
        opponent: tuned FedAvg's recipe, likewise.
        notes: what else must be known: what was left out for the budget, who diverged.
        counts: the file of counts that it was made from, where nothing else was known.
    """

    facts: Facts
    cost: Cost
    contest: Contest
    struck: Mapping[str, str]
    demands: Mapping[str, Sequence[str]]
    recipe: Recipe
    opponent: Recipe
    objective: Objective
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    counts: str | None = None

    @property
    def method(self) -> str | None:
        """The remedy to use; None where none is needed."""
        return self.contest.chosen

    @property
    def unit(self) -> str:
        """Of gains and margin."""
        return "points" if self.objective.is_share else f"% of {self.objective.headline.replace('_', ' ')}"

    @property
    def reason(self) -> str:
        """The decision in one sentence."""
        contest, unit = self.contest, self.unit
        margin = f"{contest.margin:g} {'point' if unit == 'points' and contest.margin == 1 else unit}"
        if contest.chosen is not None:
            gain = contest.entry(contest.chosen).gain
            asks = "; ".join(self.demands[contest.chosen]) or "nothing beyond FedAvg"
            return (f"use {contest.chosen}: it gains {gain.mean:.1f} {unit} over tuned FedAvg (95% interval "
                    f"{gain.low:.1f} to {gain.high:.1f}, {gain.seeds} fresh seeds), and asks for {asks}")
        if contest.nominee is not None:
            gain = contest.entry(contest.nominee).gain
            return (f"no remedy is needed here: {contest.nominee} came closest, and its gain is not surely above "
                    f"{margin}: {gain.mean:.1f} {unit} (95% interval {gain.low:.1f} to {gain.high:.1f}, "
                    f"{gain.seeds} fresh seeds)")
        return f"no remedy is needed here: none gained {margin} over tuned FedAvg on held-out examples"

    def as_mapping(self) -> dict[str, Any]:
        """All that `--json` prints."""
        contest = self.contest
        return {
            **self.about, "from_counts": self.counts, "unit": self.unit, "skew": self.facts.as_mapping(),
            "cost": self.cost.as_mapping(),
            "struck": [{"method": name, "reason": why} for name, why in self.struck.items()],
            "opponent": {"method": contest.opponent.method, "setting": contest.opponent.setting,
                         "chance_best": contest.chance_of_opponent, "recipe": self.opponent.to_toml()},
            "ranking": [self._row(entry) for entry in contest.entries],
            "decision": {"method": contest.chosen, "nominee": contest.nominee, "margin": contest.margin,
                         "text": self.reason},
            "recipe": self.recipe.to_toml(), "notes": list(self.notes), "runs": contest.runs,
            "rounds_trained": contest.rounds, "seconds": self.seconds,
        }

    def _row(self, entry: Entry) -> dict[str, Any]:
        gain = entry.gain
        return {"method": entry.method, "setting": entry.finalist.setting, "gain": gain.mean, "gain_std": gain.std,
                "low": gain.low, "high": gain.high, "seeds": gain.seeds, "broke_off": gain.broke_off,
                "confirmed": entry.method == self.contest.nominee, "held_out_gain": entry.held_out.mean,
                "chance_best": entry.chance, "demands": list(self.demands[entry.method])}

    def recipe_file(self) -> str:
        """The recipe as a file, with the decision above it."""
        comments = [self.reason]
        if self.counts is not None:
            comments.append(f"made from {self.counts} alone: put your own data and population in place of these")
        return "".join(f"# {line}\n" for line in comments) + self.recipe.to_toml()

    def write(self, folder: Path) -> None:
        """advice.json and recipe.toml."""
        files.write_json(folder / ADVICE, files.finite(self.as_mapping()))
        files.write_text(folder / RECIPE, self.recipe_file())
