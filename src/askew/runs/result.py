"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from askew.core.recipe import Recipe
from askew.rounds.loop import Record, Simulation


@dataclass(frozen=True)
class Result:
    """One run: finished, interrupted or diverged.

    Args:
        records: one per round; those of evaluated rounds have `accuracy` and `loss`.
        model: the state dict of the model to use.
        seconds: wall time of all sessions, from its first round on.
        interrupted: whether it was stopped before its last round.
        folder: where it was written, if it was.
        simulation: all that it computed on, where that is kept.
        diverged: why training broke off, if it did.
        together: configurations that were trained at once, this one included.
    """

    recipe: Recipe
    records: list[Record]
    model: dict[str, Tensor]
    seconds: float
    interrupted: bool = False
    folder: Path | None = None
    simulation: Simulation | None = field(default=None, repr=False)
    diverged: str | None = None
    together: int = 1

    @property
    def evaluations(self) -> list[Record]:
        return [record for record in self.records if "accuracy" in record]

    @property
    def accuracy(self) -> float:
        """At the last evaluation."""
        return float(self.evaluations[-1]["accuracy"]) if self.evaluations else float("nan")

    @property
    def best(self) -> Record:
        """The evaluated round with the highest accuracy."""
        return max(self.evaluations, key=lambda record: record["accuracy"])

    def rounds_to(self, target: float) -> int | None:
        """The first round that reached an accuracy."""
        return next((record["round"] for record in self.evaluations if record["accuracy"] >= target), None)

    def total(self, name: str) -> float:
        """The sum of a number over all rounds, such as `bytes_up`."""
        return sum(record.get(name, 0) for record in self.records)
