"""Run what items still need: all at once, so that runs of equal shape train together, whatever item they belong to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.papers.item import Item
from askew.papers.plan import Need, needs
from askew.papers.store import Results, Run, columns
from askew.rounds.record import Record
from askew.runs.cluster import Cluster
from askew.runs.pace import LONGEST_S, SAVING_SHARE
from askew.runs.result import Result
from askew.runs.run_folder import RunFolder
from askew.runs.sweep import sweep

WORK = Path("runs") / "reproduce"


def reproduce(items: Sequence[Item], results: Results, *, seeds: int | None = None, work: Path = WORK,
              engine: str = "auto",
              precision: str = "fp32", device: str = "cpu", data_dir: str | None = None, limit_s: float | None = None,
              on_round: Callable[[Record, Recipe], None] | None = None, cluster: Cluster | None = None) -> bool:
    """Train the runs that items need and the results files lack.

    Each has a run folder, `WORK/PAPER/FINGERPRINT-SEED`: stopped at any time, the same call goes on from there. Results
    files are written as runs finish; a run under way stands there too, but does not count as measured.

    Args:
        items: as the papers have them; the scale is that of `results`.
        seeds: as in `askew.papers.plan.needs`.
        work: where run folders lie.
        limit_s: stop cleanly after so many seconds.
        engine, precision, device, data_dir: as in `askew.run`.
        on_round: called with each round's record; rounds of earlier calls come first.
        cluster: a Ray cluster whose machines train them.

    Returns:
        Whether all that was needed is done; False where Ctrl-C or the limit stopped it.
    """
    results.check_writable()
    left = [need for need in needs(items, results, seeds) if not need.done]
    if not left:
        return True
    begun = {paper: _begun(work / paper) for paper in {need.item.paper for need in left}}
    folders = [begun[need.item.paper].get((need.fingerprint, need.seed),
                                          work / need.item.paper / f"{need.fingerprint}-{need.seed}")
               for need in left]
    keeper = _Keeper(left, folders, results, on_round)
    done = sweep([need.recipe for need in left], engine=engine, precision=precision, device=device, data_dir=data_dir,
                 folders=folders, limit_s=limit_s, on_round=keeper.on_round, on_end=keeper.on_end, cluster=cluster)
    keeper.write()
    return not any(result.interrupted for result in done)


def _begun(work: Path) -> dict[tuple[str, int], Path]:
    """Fingerprint and seed -> the folder of a run that was begun, whichever version named it."""
    folders = {}
    for path in sorted(work.glob("*/")):
        try:
            recipe = RunFolder.open(path).recipe
        except AskewError:  # no run, or one with pieces that are gone
            continue
        folders[recipe.fingerprint, recipe.seed] = path
    return folders



class _Keeper:
    """Takes rounds and outcomes to the results files, as often as costs little."""

    def __init__(self, left: Sequence[Need], folders: Sequence[Path], results: Results,
                 tell: Callable[[Record, Recipe], None] | None) -> None:
        self.left, self.folders, self.results = left, folders, results
        self.tell = tell or (lambda record, recipe: None)
        self.records: dict[int, list[Record]] = {}  # of runs under way
        self.ended: list[tuple[Item, Run]] = []
        self.began = self.written = time.monotonic()
        self.took = 0.0

    def on_round(self, i: int, record: Record, recipe: Recipe) -> None:
        self.records.setdefault(i, []).append(record)
        self.tell(record, recipe)
        self._write_if(LONGEST_S)

    def on_end(self, i: int, result: Result) -> None:
        self.records.pop(i, None)
        self.ended.append(self._stored(i, result.records, result.finished, result.diverged,
                                       result.seconds, result.together))
        self._write_if(0.0)

    def write(self) -> None:
        """Everything that is new."""
        self.written = time.monotonic()
        under_way = [self._stored(i, records, False, None, self.written - self.began, len(self.records))
                     for i, records in self.records.items()]
        self.results.add([*self.ended, *under_way])
        self.ended = []
        self.took = time.monotonic() - self.written

    def _write_if(self, least: float) -> None:
        if time.monotonic() - self.written >= max(least, self.took / SAVING_SHARE):
            self.write()

    def _stored(self, i: int, records: Sequence[Record], finished: bool, diverged: str | None, seconds: float,
                together: int) -> tuple[Item, Run]:
        need = self.left[i]
        run = Run(need.fingerprint, need.base.name, need.seed, need.recipe.to_toml(), len(records), finished, diverged,
                  RunFolder.open(self.folders[i]).environment, seconds, together, columns(records))
        return need.item, run
