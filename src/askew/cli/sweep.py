"""`askew sweep`: a grid of settings, those of equal shape trained at once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from askew.cli.common import AsJson, DataDir, Imports, err, import_modules, out, print_json
from askew.cli.progress import RunProgress
from askew.cli.report import page_of
from askew.cli.run import CheckpointEvery, Device, Engine, Methods, Precision, Settings
from askew.core.errors import AskewError, shown
from askew.core.recipe import parse_value
from askew.runs.folders import check_many, held
from askew.runs.load import load_recipe, split_outside_brackets
from askew.runs.result import Result
from askew.runs.sweep import grid
from askew.runs.sweep import sweep as train

app = typer.Typer()
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="With --resume: go on with what failed, too.")]


@app.command()
def sweep(
    file: Annotated[Path | None, typer.Argument(
        help="A recipe in TOML; without one, FedAvg on the embedded digits.")] = None,
    axes: Annotated[list[str] | None, typer.Option(
        "--grid", metavar="KEY=A,B,...", help="Values of one setting; repeat for more axes.")] = None,
    settings: Settings = None,
    method: Methods = None,
    folder: Annotated[Path | None, typer.Option(
        "--out", metavar="DIR", help="Keep a run folder for each configuration here; else nothing is written.")] = None,
    go_on: Annotated[bool, typer.Option(
        "--resume", help="Go on with an interrupted sweep in DIR (same options).")] = False,
    retry_failed: RetryFailed = False,
    checkpoint_every: CheckpointEvery = None,
    engine: Engine = "auto",
    precision: Precision = "fp32",
    device: Device = "cpu",
    imports: Imports = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train all combinations of some settings and rank them.

    Learning rates, momenta, thresholds, seeds and populations train together, as one computation.

    Example:

      askew sweep --method fedavgm --grid sgd.lr=0.03,0.1,0.3 --grid momentum.beta=0.7,0.9 --grid seed=0,1,2
    """
    import_modules(imports)
    values = _axes(axes or [])
    recipes = grid(load_recipe(file, settings or [], method), values)
    # In the order of `grid`.
    combinations = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    check_retry(retry_failed, go_on)
    check_many(folder, go_on, "sweep")
    folders = None if folder is None else [folder / _folder_name(i, setting) for i, setting in enumerate(combinations)]
    total = sum(r.rounds for r in recipes)
    with held(folder, "sweep"), RunProgress(total, f"{len(recipes)} configurations") as progress:
        results = train(recipes, engine=engine, precision=precision, device=device, data_dir=data_dir, folders=folders,
                        retry_failed=retry_failed, checkpoint_every=checkpoint_every,
                        on_round=lambda i, record, recipe: progress.on_round(record, recipe))
    rows = sorted(zip(combinations, results, strict=True), key=_rank)
    interrupted = any(result.interrupted for result in results)
    page = page_of(folder) if folder is not None and any(result.records for result in results) else None
    if as_json:
        print_json({"configurations": [_row(setting, result) for setting, result in rows], "interrupted": interrupted})
    else:
        out.print(_table(rows))
        if page is not None:
            out.print(f"page: {page}", soft_wrap=True)
    if interrupted:
        remedy = (f"go on with the same options and --resume --out {folder}" if folder
                  else "with --out DIR it could be gone on with")
        err.print(f"interrupted: this is how far it came; {remedy}", soft_wrap=True)
        raise typer.Exit(130)
    if all(result.failed for result in results):
        raise AskewError(f"all {len(results)} configurations failed: {results[0].failed}")


def check_retry(retry_failed: bool, go_on: bool) -> None:
    """Refuse an option that would do nothing."""
    if retry_failed and not go_on:
        raise AskewError("--retry-failed goes with --resume: it goes on with what failed in an earlier session")


def _table(rows: Sequence[tuple[dict[str, object], Result]]) -> Table:
    settings = list(rows[0][0])
    table = Table(box=None, header_style="bold")
    for name in (*settings, rows[0][1].headline.replace("_", " "), "best", "in round", ""):
        table.add_column(name, justify="left" if name in settings else "right")
    for setting, result in rows:
        numbers, shown = ("", "", ""), result.objective.shown
        if result.evaluations and not (result.diverged or result.failed):
            numbers = (shown(result.score), shown(result.best[result.headline]), str(result.best["round"]))
        left = f"{len(result.records)} of {result.recipe.rounds} rounds" if result.interrupted else ""
        broke_off = f"failed: {result.failed}" if result.failed else result.diverged
        table.add_row(*map(str, setting.values()), *numbers, broke_off or left)
    return table


def _rank(row: tuple[dict[str, object], Result]) -> float:
    result = row[1]
    if result.diverged or result.failed or not result.evaluations:
        return math.inf
    return -result.best[result.headline] if result.objective.higher_is_better else float(result.best[result.headline])


def _row(setting: dict[str, object], result: Result) -> dict[str, object]:
    known = result.diverged is None and result.failed is None and bool(result.evaluations)
    best, headline = result.best if known else {}, result.headline
    return {"settings": setting, headline: result.score if known else None, f"best_{headline}": best.get(headline),
            "best_round": best.get("round"), "rounds": len(result.records), "diverged": result.diverged,
            "failed": result.failed, "seed": result.recipe.seed,
            "run": None if result.folder is None else str(result.folder)}


def _folder_name(number: int, setting: dict[str, object]) -> str:
    """`003-sgd.lr=0.1-seed=1`; populations and other long values are cut."""
    text = "-".join(f"{key}={value}" for key, value in setting.items())
    plain = re.sub(r"[^\w.=+]+", "-", text)[:60].strip("-")
    return f"{number:03d}-{plain}"


def _axes(texts: Sequence[str]) -> dict[str, list[object]]:
    """The grid: no axis and no value of one twice, which would train the same twice or leave something out."""
    if not texts:
        raise AskewError("sweep needs at least one --grid KEY=A,B,...; for example --grid sgd.lr=0.03,0.1,0.3")
    values: dict[str, list[object]] = {}
    for key, axis in map(_axis, texts):
        if key in values:
            raise AskewError(f"--grid: {key!r} has two axes; write all values in one: --grid {key}=A,B,...")
        if twice := [value for i, value in enumerate(axis) if value in axis[:i]]:
            raise AskewError(f"--grid: {key} has the value {shown(twice[0])} twice; the same run again is no further "
                             "evidence")
        values[key] = axis
    return values


def _axis(text: str) -> tuple[str, list[object]]:
    key, equals, values = text.partition("=")
    parts = split_outside_brackets(values, ",")
    if not equals or not all(parts):
        raise AskewError(f"--grid takes KEY=A,B,..., got {text!r}")
    return key.strip(), [parse_value(part) for part in parts]
