"""Train the atlas: every method and setting on every federation of the proof, advise's own contest, and the truth.

    python benchmarks/advise_atlas.py --data local/advise_data --out local/atlas --workers 14 --minutes 24

One process per federation, single-threaded; each appends what it has finished to OUT/parts/NUMBER.jsonl, and goes on
from there when it is started again. `--merge` makes OUT/atlas.parquet of it. A federation is whole when its last line
says so.

    python benchmarks/advise_atlas.py --data ... --out ... --begin-with results/advise --again data_sharing

begins with the rows of a published atlas and trains what is missing, as after a change of the contest; methods behind
`--again` are trained anew.

Of each federation:
  1. all settings of all methods on the contest's selection seeds, whole runs, scores at a quarter of the rounds and at
     the end: the exhaustive search;
  2. the contest of `askew advise`, which finds these trials in the table and trains the others (fresh seeds);
  3. on federations without skew, four further contests with other seeds;
  4. the truth: `TRUTH` further seeds for each method's best setting by exhaustive search, for advise's finalists,
     and for the three settings that are best on the test set.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: one process per core

import numpy as np
import torch
from advise_federations import Federation, federations

from askew.advice.candidates import METHODS, Candidate, candidates_of
from askew.advice.contest import Contest, Plan, hold
from askew.advice.demanding import demandingness
from askew.advice.gains import Scale, Score
from askew.advice.trials import Trials, score_of
from askew.engine.build import build_task
from askew.runs.configuration import Configuration, Means
from askew.runs.driver import drive

TRUTH, TRUTH_FROM = 20, 5_000  # fresh seeds of the truth, and the first of them
# Further contests on federations without skew, with seeds of their own, since false alarms should be rare: first seeds.
AGAIN = (10_000, 20_000, 30_000, 40_000)
SCALE = Scale(higher_is_better=True, is_share=True)
AT_ONCE = 48
DONE = "done"
Row = tuple[str, int, int]  # key of a candidate, seed, round


class Atlas:
    """Scores of one federation; what is not known is trained whole, with a look at a quarter of the rounds."""

    def __init__(self, federation: Federation, path: Path | None, until: float = math.inf, trains: bool = True) -> None:
        self.federation, self._path, self._until, self._trains = federation, path, until, trains
        self.rows: dict[Row, Score] = {}
        self.notes: dict[str, Any] = {}
        self.rounds = federation.recipe.rounds
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:  # the last line of a process that was killed
            return
        if isinstance(found, dict):
            self.notes |= found
        else:
            key, seed, at, held_out, test = found
            self.rows[key, seed, at] = Score(*(math.nan if v is None else v for v in (held_out, test)))

    def note(self, **facts: Any) -> None:
        self.notes |= facts
        self._write([facts])

    def _write(self, lines: Sequence[Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))

    def __call__(self, candidates: Sequence[Candidate], seeds: Sequence[int],
                 rounds: int) -> dict[tuple[str, int], Score]:
        missing = [(c, s) for c in candidates for s in seeds if (c.key, s, rounds) not in self.rows]
        if missing and not self._trains:
            raise LookupError(f"{self.federation.name}: {missing[0][0].key}, seed {missing[0][1]} is not in the atlas")
        for start in range(0, len(missing), AT_ONCE):
            if time.monotonic() > self._until:
                raise TimeoutError
            self._train(missing[start : start + AT_ONCE])
        return {(c.key, s): self.rows[c.key, s, rounds] for c in candidates for s in seeds}

    def _train(self, wanted: Sequence[tuple[Candidate, int]]) -> None:
        quarter = Plan(self.rounds).first_rounds
        configurations = [Configuration(c.recipe.replace(seed=s, rounds=self.rounds, evaluate_every=quarter,
                                                         stop_after_no_gain=self.rounds)) for c, s in wanted]
        lines = []
        for (c, s), result in zip(wanted, drive(configurations, Means(), keep=False), strict=True):
            if result.interrupted:
                raise KeyboardInterrupt
            if result.failed:
                raise RuntimeError(f"{self.federation.name}: {c.key}: {result.failed}")
            for at in (quarter, self.rounds):
                score = score_of(result, at)
                self.rows[c.key, s, at] = score
                lines.append([c.key, s, at, *(None if math.isnan(v) else v for v in (score.held_out, score.test))])
        self._write(lines)


def entrants(federation: Federation) -> dict[str, list[Candidate]]:
    """Methods that can run there, with their settings; those that give each client a model of its own are left out."""
    found = {}
    for method in METHODS:
        candidates = candidates_of(federation.recipe, method)
        if not build_task(candidates[0].recipe).personal:
            found[method] = candidates
    return found


def truth_set(atlas: Atlas, contest: Contest, candidates: dict[str, list[Candidate]]) -> list[Candidate]:
    """Whose truth is wanted."""
    seeds = range(Plan(atlas.rounds).selection)

    def mean(candidate: Candidate, on: str) -> float:
        values = [getattr(atlas.rows[candidate.key, s, atlas.rounds], on) for s in seeds]
        return -math.inf if any(map(math.isnan, values)) else float(np.mean(values))

    everyone = [c for settings in candidates.values() for c in settings]
    wanted = [max(settings, key=lambda c: mean(c, "held_out")) for settings in candidates.values()]
    wanted += [contest.opponent, *(entry.finalist for entry in contest.entries)]
    wanted += sorted(everyone, key=lambda c: -mean(c, "test"))[:3]
    return list({c.key: c for c in wanted if mean(c, "held_out") > -math.inf}.values())


def train(number: int, folder: str, out: str, until: float, live: bool) -> str:
    """One federation, as far as time allows."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    federation = federations(folder)[number]
    atlas = Atlas(federation, Path(out) / "parts" / f"{number:03d}.jsonl", until)
    if DONE in atlas.notes:
        return f"{federation.name}: was done"
    began = time.monotonic()
    atlas.note(federation=federation.name, data=federation.data, skew=federation.skew, rounds=federation.recipe.rounds)
    try:
        candidates = entrants(federation)
        demands = {method: demandingness(build_task(settings[0].recipe)) for method, settings in candidates.items()}
        atlas.note(demands=demands)
        for settings in candidates.values():
            atlas(settings, range(Plan(atlas.rounds).selection), atlas.rounds)
        contest = hold(candidates, atlas, Plan(atlas.rounds), SCALE, demands=demands)
        atlas.note(nominee=contest.nominee, chosen=contest.chosen)
        truth = range(TRUTH_FROM, TRUTH_FROM + TRUTH)
        for candidate in truth_set(atlas, contest, candidates):
            atlas([candidate], truth, atlas.rounds)
        for first in AGAIN if federation.skew == "iid" else ():
            other = hold(candidates, atlas, Plan(atlas.rounds), SCALE, demands=demands, seed=first)
            if other.chosen is not None:
                atlas([other.opponent, other.entry(other.chosen).finalist], truth, atlas.rounds)
        if live:  # the same contest with trials of its own, none of them looked up
            again = hold(candidates, Trials(Means()), Plan(atlas.rounds), SCALE, demands=demands)
            atlas.note(live_chosen=again.chosen, live_nominee=again.nominee,
                       live_gains={e.method: e.gain.mean for e in again.entries},
                       looked_up_gains={e.method: e.gain.mean for e in contest.entries})
    except TimeoutError:
        return f"{federation.name}: stopped after {time.monotonic() - began:.0f} s"
    atlas.note(**{DONE: round(time.monotonic() - began, 1)})
    return f"{federation.name}: {time.monotonic() - began:.0f} s, chosen {contest.chosen}"


def merge(out: Path, folder: str) -> None:
    """OUT/atlas.parquet (one row per run and look) and OUT/federations.json, of whole federations."""
    import pandas

    rows, about = [], []
    for number, federation in enumerate(federations(folder)):
        atlas = Atlas(federation, out / "parts" / f"{number:03d}.jsonl", trains=False)
        if DONE not in atlas.notes:
            continue
        about.append(atlas.notes)
        for (key, seed, at), score in atlas.rows.items():
            method, _, setting = key.partition(" rate")
            rows.append((federation.name, federation.data, federation.skew, method, f"rate{setting}", seed, at,
                         score.held_out, score.test))
    frame = pandas.DataFrame(rows, columns=["federation", "data", "skew", "method", "setting", "seed", "round",
                                            "held_out_accuracy", "accuracy"])
    for column in ("federation", "data", "skew", "method", "setting"):
        frame[column] = frame[column].astype("category")
    for column in ("held_out_accuracy", "accuracy"):
        frame[column] = frame[column].astype("float32")
    frame.to_parquet(out / "atlas.parquet", compression="zstd", index=False)
    (out / "federations.json").write_text(json.dumps(
        {"federations": about, "torch": torch.__version__, "numpy": np.__version__}, indent=1) + "\n")
    sys.stdout.write(f"{len(about)} whole federations, {len(frame):,} rows" + "\n")


def begin_with(published: Path, out: Path, folder: str, again: Sequence[str]) -> None:
    """OUT/parts of the rows of a published atlas, for federations that have no part yet.

    Args:
        again: methods whose rows are left out.
    """
    import pandas

    frame = pandas.read_parquet(published / "atlas.parquet")
    frame = frame[~frame.method.isin(again)]
    for number, federation in enumerate(federations(folder)):
        path, rows = out / "parts" / f"{number:03d}.jsonl", frame[frame.federation == federation.name]
        if path.exists() or not len(rows):
            continue
        lines = [[f"{row.method} {row.setting}", int(row.seed), int(row.round), *(
                 None if math.isnan(v) else float(f"{v:.6g}") for v in (row.held_out_accuracy, row.accuracy))]
                 for row in rows.itertuples(index=False)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--only", help="numbers of federations, with commas; else all")
    parser.add_argument("--live", type=int, default=4, help="so many federations hold the contest live, too")
    parser.add_argument("--merge", action="store_true", help="only merge what is there")
    parser.add_argument("--begin-with", type=Path, help="a folder with a published atlas.parquet")
    parser.add_argument("--again", nargs="*", default=[], help="methods of it that are trained anew")
    given = parser.parse_args()
    (given.out / "parts").mkdir(parents=True, exist_ok=True)
    if given.begin_with:
        begin_with(given.begin_with, given.out, given.data, given.again)
    if not given.merge:
        run_all(given)
    merge(given.out, given.data)


def run_all(given: argparse.Namespace) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    count = len(federations(given.data))
    numbers = [int(n) for n in given.only.split(",")] if given.only else order(given.data)
    until = time.monotonic() + 60 * given.minutes
    live = set([n for n in numbers if "digits" in federations(given.data)[n].name][: given.live])
    sys.stdout.write(f"{len(numbers)} of {count} federations on {given.workers} processes" + "\n")
    with ProcessPoolExecutor(given.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        began = time.monotonic()
        jobs = [pool.submit(train, n, given.data, str(given.out), until, n in live) for n in numbers]
        for done, job in enumerate(as_completed(jobs), 1):
            try:
                said = job.result()
            except Exception as error:
                said = f"failed: {type(error).__name__}: {error}"
            sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {done}/{len(jobs)}  {said}" + "\n")


def order(folder: str) -> list[int]:
    """The longest first, so that no core waits at the end; among equals one data set after the other."""
    cost = {"cifar": 5, "mnist": 3, "speech": 3, "digits": 2, "cancer": 1, "wine": 1}
    made = federations(folder)
    return sorted(range(len(made)), key=lambda n: -cost[made[n].data])


if __name__ == "__main__":
    sys.exit(main())
