"""Runs as a page needs them: folders read, runs of one recipe put together over seeds, one measure for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from askew.core import files
from askew.core.errors import AskewError, shortened
from askew.core.objective import Objective, objective_of
from askew.pieces.probe.accuracy_on_devices_of import NUMBER as ON_FEDERATION
from askew.report.page.blocks import Line, line
from askew.report.page.evaluation import plain_record, problem_of
from askew.report.page.labels import labels
from askew.report.page.report import Measure, Report, Run, Series
from askew.runs.compare import TABLE
from askew.runs.evaluation import EVALUATION, read_evaluation
from askew.runs.folders import MARKER, METRICS, kind_of
from askew.runs.result import Result
from askew.runs.run_folder import RunFolder

FORMAT = 1  # of markers that this version can read
BROKEN = ("diverged", "failed")  # how the state of a run begins of which there will be no more


def collect(sources: Iterable[str | Path | Result]) -> Report:
    """Read run folders, folders of comparisons and sweeps, and results in memory.

    Raises:
        AskewError: for what is no run, has no rounds or comes from a newer version, and for runs of different tasks.
    """
    runs: list[Run] = []
    table: dict[str, Any] = {}
    passed_over: list[str] = []
    for source in sources:
        if isinstance(source, Result):
            runs.append(_of_result(source))
            continue
        path = Path(source)
        inside = _folders(path)
        if (path / TABLE).is_file():
            table |= _table(path / TABLE)
        for folder in inside:
            run = _read(folder)
            if run.records:
                runs.append(run)
            elif folder == path:
                raise AskewError(f"{str(path)!r} has no rounds to show" + (
                    f": it {run.state}" if run.state.startswith(BROKEN) else " yet; wait for the first one to end"))
            else:
                what = next((word for word in BROKEN if run.state.startswith(word)), "not begun")
                passed_over.append(f"{folder.name} ({what})")
    if not runs:
        raise AskewError(f"there is nothing to report, no run has a round: {shortened(', '.join(passed_over), 300)}")
    _check_one_task(runs)
    series = _series(runs, table)
    return Report(series, _measure(series, table), table, passed_over)


def _folders(path: Path) -> list[Path]:
    """The run folders that a path names: itself, or those of a comparison or a sweep."""
    if not path.is_dir():
        raise AskewError(f"{str(path)!r} is no folder; name the folder of a run, a comparison or a sweep")
    if (path / MARKER).is_file():
        _check_format(files.read_json(path / MARKER, "marker"), path / MARKER)
    kind = kind_of(path)
    if kind == "run":
        return [path]
    inside = sorted(inner for inner in path.iterdir() if inner.is_dir() and kind_of(inner) == "run")
    if kind not in ("comparison", "sweep") or not inside:
        raise AskewError(f"{str(path)!r} holds no run of askew; name the folder of a run, a comparison or a sweep")
    return inside


def _read(path: Path) -> Run:
    try:
        folder = RunFolder.open(path)
        recipe, records = folder.recipe, folder.records()
        how = (f"diverged: {folder.divergence}" if folder.divergence else f"failed: {folder.failure}" if folder.failure
               else "stopped or still running")
        state = "finished" if folder.is_finished else f"{how}, after {len(records)} of {recipe.rounds} rounds"
        plain = [plain_record(record) for record in records]
        if not all("round" in record for record in plain):
            raise AskewError(f"{str(path / METRICS)!r} is damaged: a line is no record of a round")
        return Run(recipe, plain, folder.summary, folder.environment, _evaluation(path / EVALUATION), state, path)
    except AskewError as error:
        raise error if str(path) in str(error) else AskewError(f"{str(path)!r}: {shortened(str(error), 500)}") from None


def _evaluation(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    evaluation = read_evaluation(path)
    if problem := problem_of(evaluation):
        raise AskewError(f"{str(path)!r} is damaged: {problem}")
    return evaluation


def _table(path: Path) -> dict[str, Any]:
    """Of a comparison's table, what it was judged by, its names of the runs, and what skew costs."""
    table = files.read_json(path, "table of a comparison")
    methods, skew = ([row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
                     for rows in (table.get("methods"), table.get("skew")))
    names = {Path(str(folder)).name: str(row.get("name")) for row in methods
             if isinstance(row.get("runs"), list) for folder in row["runs"]}
    return {"judge": table.get("judge"), "skew": skew, "names": names,
            "personal": [str(row.get("name")) for row in methods if row.get("personal") is True],
            "floor": table.get("majority_class_accuracy")}


def _of_result(result: Result) -> Run:
    if result.folder is not None and (result.folder / MARKER).is_file():
        return _read(result.folder)
    state = ("finished" if result.finished else f"diverged: {result.diverged}" if result.diverged
             else f"failed: {result.failed}" if result.failed else f"stopped after {len(result.records)} rounds")
    known = result.evaluation if result.finished and result.simulation is not None else None
    summary = {"seconds": result.seconds, "stopped_early": result.stopped_early}
    environment = {"replaced": {"data": result.data_name}} if result.data_name else {}
    return Run(result.recipe, result.records, summary, environment, known, state, None)


def _check_format(content: Mapping[str, Any], path: Path) -> None:
    number = content.get("format", FORMAT)
    if not isinstance(number, int) or number > FORMAT:
        raise AskewError(f"{str(path)!r} was written by a newer version of askew (format {number}, this one reads "
                         f"{FORMAT}); update askew")


def _check_one_task(runs: Sequence[Run]) -> None:
    def task(run: Run) -> tuple[str, ...]:
        return str(run.recipe.data), str(run.recipe.objective), run.own_data

    for run in runs:
        if task(run) != task(runs[0]):
            this, first = (f"{one.own_data or one.recipe.data} with {one.recipe.objective}" for one in (run, runs[0]))
            raise AskewError(f"runs of different tasks cannot stand in one report: {_named(runs[0])} is of {first}, "
                             f"{_named(run)} of {this}; write a page for each")


def _named(run: Run) -> str:
    return repr(str(run.folder)) if run.folder else repr(run.recipe.name)


def _series(runs: Sequence[Run], table: Mapping[str, Any]) -> list[Series]:
    """Runs that differ in nothing but the seed; the same seed again opens a series of its own."""
    groups: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        key = run.recipe.name, run.recipe.fingerprint
        again = sum(run.recipe.seed == other.recipe.seed for (*kind, _), members in groups.items()
                    if tuple(kind) == key for other in members)
        groups.setdefault((*key, again), []).append(run)
    names = table.get("names", {})
    made_up = labels([members[0].recipe for members in groups.values()])
    result: list[Series] = []
    for at, members in enumerate(groups.values()):
        known = [names[run.folder.name] for run in members if run.folder is not None and run.folder.name in names]
        label, look = (known or made_up[at : at + 1])[0], line(len(result), "", "")
        choices = {choice for run in members for choice in (run.clients or {}).get("model", [])}
        personal = label in table.get("personal", []) or len(choices) > 1
        series = Series(label, sorted(members, key=lambda run: run.recipe.seed), look, personal)
        place = sum(not other.in_one_place for other in result)  # the ceiling has the ink's own colour
        look = Line(label, f"s{at}", "--ink") if series.in_one_place else line(place, label, f"s{at}")
        result.append(replace(series, look=look))
    return result


def _measure(series: Sequence[Series], table: Mapping[str, Any]) -> Measure:
    """Of a comparison, the one that its table was made by; else what the objective is judged by."""
    objective: Objective = objective_of(series[0].first.recipe)
    name = objective.headline
    keys, on = [name], None
    if table.get("judge") == "devices":
        keys, on = [ON_FEDERATION, f"device_{name}_mean"], "data like each client's own, mean over the clients"
    else:
        said = {str(run.evaluation["judged_on"]) for one in series for run in one.runs
                if run.evaluation is not None and run.evaluation.get("judged_on")}
        on = " or ".join(sorted(said)) or None
    return Measure(name.replace("_", " "), keys, objective.is_share, objective.higher_is_better, on)
