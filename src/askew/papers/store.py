"""Results files: every run of an item with its curves, and the machine and versions that it comes from.

`FOLDER/PAPER/ITEM.json` at the papers' scale, `FOLDER/PAPER/quick/ITEM.json` for the reduced versions, which are never
shown as the paper's numbers. A run is known by its recipe's fingerprint and its seed; it stands in the file of the
item that needed it first, and counts for every item of the paper. The first rounds of a longer run are the shorter one:
nothing that is done in a round depends on how many will follow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from askew.core import files
from askew.core.errors import AskewError, UnwritableError, first_line
from askew.core.files import read_text
from askew.core.recipe import FORMAT, Recipe
from askew.papers.item import Item
from askew.papers.measure import Columns

Scale = Literal["full", "quick"]
SCALES: tuple[Scale, ...] = ("full", "quick")
DIGITS = 5  # significant digits of a stored number
LONGEST = 32  # elements of a list that is worth a column: one per class, per archetype or per device of a few
ALL_ROUNDS = 1000  # a longer run keeps its evaluated rounds only
NOT_KEPT = {"clients", "train_loss", "bytes_down", "bytes_up", "device_accuracy_min"}
NOT_OF_THE_MACHINE = {"data_dir", "replaced"}  # in a run's environment


@dataclass(frozen=True)
class Run:
    """One run as it is stored.

    Args:
        recipe: in TOML, with the seed.
        rounds: done so far.
        finished: whether these are all of them.
        diverged: why training broke off, if it did.
        environment: versions, machine, engine, precision.
        seconds: wall time of the group that it trained in.
        together: runs in that group.
        records: the columns.
    """

    fingerprint: str
    name: str
    seed: int
    recipe: str
    rounds: int
    finished: bool
    diverged: str | None
    environment: Mapping[str, Any]
    seconds: float
    together: int
    records: Columns

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        return self.finished or self.diverged is not None

    @property
    def key(self) -> tuple[str, int]:
        return self.fingerprint, self.seed


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Records, one per round, as columns of rounded numbers and short lists."""
    kept = records if len(records) <= ALL_ROUNDS else [record for record in records if "accuracy" in record]
    keys = dict.fromkeys(key for record in kept for key, value in record.items()
                         if key not in NOT_KEPT and _storable(value))
    return {key: [_rounded(record.get(key)) for record in kept] for key in keys}


class Results:
    """The results files of one scale under a folder, read when first asked for."""

    def __init__(self, folder: Path, scale: Scale = "full") -> None:
        if scale not in SCALES:
            raise AskewError(f"unknown scale {scale!r}; use {' or '.join(SCALES)}")
        self.folder = folder
        self.scale = scale
        self._runs: dict[str, dict[str, dict[int, Run]]] = {}  # paper -> fingerprint -> seed -> run
        # paper, fingerprint, seed -> item in whose file the run stands
        self._where: dict[tuple[str, str, int], str] = {}
        self._families: dict[str, dict[str, list[Run]]] = {}  # paper -> fingerprint but for the length -> runs

    def path(self, paper: str, name: str) -> Path:
        return self.folder / paper / (f"quick/{name}.json" if self.scale == "quick" else f"{name}.json")

    def check_writable(self) -> None:
        """Refuse, before any work, a folder that could not take results."""
        files.check_writable(self.folder, f"--results: {str(self.folder)!r} cannot take results")

    def of_paper(self, paper: str) -> dict[str, dict[int, Run]]:
        """Fingerprint -> seed -> run."""
        if paper not in self._runs:
            self._runs[paper] = {}
            for path in sorted(self.path(paper, "*").parent.glob("*.json")):
                for run in read(path):
                    self._take(paper, path.stem, run)
        return self._runs[paper]

    def seeds(self, paper: str, recipe: Recipe) -> list[Run]:
        """All runs of a recipe, by seed (the recipe's own does not matter)."""
        runs = dict(self.of_paper(paper).get(recipe.fingerprint, {}))
        for longer in self._longer(paper, recipe):
            if longer.seed not in runs or not runs[longer.seed].done:
                runs[longer.seed] = _cut(longer, recipe)
        return [runs[seed] for seed in sorted(runs)]

    def find(self, paper: str, recipe: Recipe, seed: int) -> Run | None:
        """The run of a recipe with a seed."""
        run = self.of_paper(paper).get(recipe.fingerprint, {}).get(seed)
        if run is None or not run.done:
            run = next((_cut(longer, recipe) for longer in self._longer(paper, recipe) if longer.seed == seed), run)
        return run

    def _longer(self, paper: str, recipe: Recipe) -> list[Run]:
        """Runs that came further than a recipe goes, and are equal otherwise."""
        stored = self.of_paper(paper)
        if (recipe.stop_after_no_gain or recipe.rounds % recipe.evaluate_every
                or not any(run.rounds > recipe.rounds for runs in stored.values() for run in runs.values())):
            return []
        if paper not in self._families:
            self._families[paper] = {}
            for run in (run for runs in stored.values() for run in runs.values()):
                self._families[paper].setdefault(_family(run.recipe), []).append(run)
        return [run for run in self._families[paper].get(family_of(recipe), []) if run.rounds > recipe.rounds]

    def add(self, runs: Iterable[tuple[Item, Run]]) -> None:
        """Put runs, each of an item, into the files; a run that is there gives way only to one that is further."""
        files: dict[tuple[str, str], list[Run]] = {}
        for item, run in runs:
            self.of_paper(item.paper)
            home = self._where.get((item.paper, *run.key), item.name)
            if self._take(item.paper, home, run):
                files.setdefault((item.paper, home), []).append(run)
        for (paper, name), fresh in files.items():
            path = self.path(paper, name)
            # Read again: another process may have added to it meanwhile.
            merged = {run.key: run for run in (read(path) if path.is_file() else [])}
            merged |= {run.key: run for run in fresh if _better(run, merged.get(run.key))}
            write(path, paper, name, self.scale, merged.values())

    def _take(self, paper: str, name: str, run: Run) -> bool:
        runs = self._runs[paper].setdefault(run.fingerprint, {})
        if not _better(run, runs.get(run.seed)):
            return False
        runs[run.seed] = run
        self._where[paper, *run.key] = name
        self._families.pop(paper, None)
        return True


def family_of(recipe: Recipe) -> str:
    """What recipes have in common that differ in length only."""
    return recipe.fingerprint_without("name", "seed", "rounds")


def _family(recipe: str) -> str:
    try:
        return family_of(Recipe.from_toml(recipe))
    except AskewError:  # with pieces that are gone
        return ""


def _cut(run: Run, recipe: Recipe) -> Run:
    """The first rounds of a longer run, as a run of a recipe that ends there."""
    kept = sum(round <= recipe.rounds for round in run.records["round"])
    return replace(run, fingerprint=recipe.fingerprint, name=recipe.name, rounds=recipe.rounds, finished=True,
                   diverged=None, recipe=recipe.replace(seed=run.seed).to_toml(),
                   seconds=run.seconds * recipe.rounds / run.rounds,
                   records={key: values[:kept] for key, values in run.records.items()})


def read(path: Path) -> list[Run]:
    """The runs of one file."""
    text = read_text(path, "results file")
    try:
        content = json.loads(text)
        environments, current = content["environments"], content.get("format") == FORMAT
        return [Run(**{**run, "environment": environments[run["environment"]],
                       "fingerprint": run["fingerprint"] if current else _fingerprint_of(run)})
                for run in content["runs"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise AskewError(f"{path} is not a results file ({first_line(error)}); "
                         "remove it, or take it back from version control") from None


def write(path: Path, paper: str, name: str, scale: Scale, runs: Iterable[Run]) -> None:
    """One line per run, so that versions of a file can be compared; written beside the old file, then renamed."""
    environments: list[dict[str, Any]] = []
    lines = []
    for run in sorted(runs, key=lambda run: (run.name, *run.key)):
        environment = {key: value for key, value in run.environment.items() if key not in NOT_OF_THE_MACHINE}
        # Runs that differ only in when they were started share one.
        at = next((i for i, other in enumerate(environments)
                   if {**other, "started": None} == {**environment, "started": None}), None)
        if at is None:
            at = len(environments)
            environments.append(environment)
        lines.append(json.dumps({**vars(run), "environment": at, "seconds": round(run.seconds, 3)}, allow_nan=False))
    head = {"format": FORMAT, "paper": paper, "item": name, "scale": scale, "environments": environments}
    opened = json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}")
    text = opened + ',\n "runs": [\n' + ",\n".join(lines) + "\n ]\n}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, text)
    except UnwritableError as error:
        raise UnwritableError(f"--results: {error}") from None
    except OSError as error:
        raise AskewError(f"--results: {path} cannot be written: {error.strerror or error}; "
                         "name another folder") from None


def _fingerprint_of(run: Mapping[str, Any]) -> str:
    """Of a run that was stored with one of another format; one that names pieces which are gone keeps what it has."""
    try:
        return Recipe.from_toml(run["recipe"]).fingerprint
    except AskewError:
        return str(run["fingerprint"])


def _better(run: Run, other: Run | None) -> bool:
    return other is None or (not other.done and (run.done or run.rounds > other.rounds))


def _storable(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= LONGEST and all(isinstance(v, int | float) for v in value)
    return isinstance(value, int | float)


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value] if _storable(value) else None
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value if isinstance(value, int) else None
