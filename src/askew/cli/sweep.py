"""`askew sweep`: a grid of settings, or some drawn at random, those of equal shape trained at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from askew.cli.common import AsJson, DataDir, Imports, err, import_modules, out, print_json, table
from askew.cli.progress import Quiet, RunProgress
from askew.cli.ray import Ray, WithRay, cluster_of
from askew.cli.report import page_of
from askew.cli.run import CheckpointEvery, Device, Engine, Methods, Precision, RecipeFile, Settings
from askew.core.errors import AskewError, DivergedError, shown
from askew.core.recipe import parse_value
from askew.engine.choice import check_engine
from askew.runs.folders import check_many, held
from askew.runs.load import load_recipe, split_outside_brackets
from askew.runs.ranking import Setting, check_rank, ranked, recording_held_out
from askew.runs.result import Result
from askew.runs.search import SEED, Range, random_settings
from askew.runs.sweep import sweep as train
from askew.runs.sweep import with_settings

app = typer.Typer()
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="With --resume: continue what failed, too.")]


@app.command(cls=WithRay)
def sweep(
    file: RecipeFile = None,
    axes: Annotated[list[str] | None, typer.Option(
        "--grid", metavar="KEY=A,B,...",
        help="Values of one setting, or with --random a range: log(0.001,1), uniform(0,1), whole(1,8). Repeat for "
             "more.")] = None,
    random: Annotated[int | None, typer.Option(
        "--random", metavar="N", help="Draw N settings at random, each with every seed, in place of all "
                                      "combinations.")] = None,
    rank: Annotated[str, typer.Option(
        "--rank", metavar="last|held-out",
        help="By the test set in the last round, or by training examples that the population holds out.")] = "last",
    plot: Annotated[Path | None, typer.Option(
        "--plot", metavar="FILE", help="A picture: over each number, the effective rate, and as a heat map.")] = None,
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
    ray: Ray = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train many settings and rank them by their mean over seeds in the last round.

    Learning rates, momenta, thresholds, seeds and populations train together, as one computation.

    Examples:

      askew sweep --method fedavgm --grid sgd.lr=0.03,0.1,0.3 --grid momentum.beta=0.7,0.9 --grid seed=0,1,2

      askew sweep --random 20 --grid "sgd.lr=log(0.001,1)" --grid seed=0,1,2 --plot rates.png
    """
    from askew.report.canvas import check_plot_path
    from askew.report.sweep_plot import check_axes, plot_sweep

    import_modules(imports)
    by, base = check_rank(rank), load_recipe(file, settings or [], method)
    combinations = _combinations(_axes(axes or []), random, base.seed)
    if by == "held-out":
        base = recording_held_out(base)
    recipes = [with_settings(base, setting) for setting in combinations]
    if plot is not None:
        check_plot_path(plot)
        check_axes(combinations)
    check_retry(retry_failed, go_on)
    check_many(folder, go_on, "sweep")
    folders = None if folder is None else [folder / _folder_name(i, setting) for i, setting in enumerate(combinations)]
    total = sum(r.rounds for r in recipes)
    check_engine(engine, precision, several=True)
    with (cluster_of(ray, imports) as cluster, held(folder, "sweep"),
          RunProgress(total, f"{len(recipes)} configurations", quiet) as progress):
        results = train(recipes, engine=engine, precision=precision, device=device, data_dir=data_dir, folders=folders,
                        retry_failed=retry_failed, checkpoint_every=checkpoint_every, progress=False,
                        cluster=cluster,
                        on_round=lambda i, record, recipe: progress.on_round(record, recipe))
    rows = ranked(combinations, results, by)
    interrupted = any(result.interrupted for result in results)
    page = page_of(folder) if folder is not None and any(result.records for result in results) else None
    if as_json:
        print_json({"ranked_by": _ranked_by(rows), "settings": [_setting(row) for row in rows],
                    "configurations": [_row(row, result) for row in rows for result in row.results],
                    "interrupted": interrupted})
    else:
        out.print(_table(rows))
        out.print(_ranked_by(rows), soft_wrap=True)
    if plot is not None and any(row.scores for row in rows):
        plot_sweep(rows, plot)
        if not as_json:
            out.print(f"picture: {plot}", soft_wrap=True)
    if page is not None and not as_json:
        out.print(f"page: {page}", soft_wrap=True)
    if interrupted:
        remedy = (f"continue with the same options and --resume --out {folder}" if folder
                  else "with --out DIR it could be continued")
        err.print(f"interrupted: this is how far it came; {remedy}", soft_wrap=True)
        raise typer.Exit(130)
    if all(result.failed for result in results):
        raise AskewError(f"all {len(results)} configurations failed: {results[0].failed}")
    if all(result.failed or result.diverged for result in results):
        first = next(result.diverged for result in results if result.diverged)
        raise DivergedError(f"none of {len(results)} configurations reached its end: {first}")


def check_retry(retry_failed: bool, go_on: bool) -> None:
    """Refuse an option that would do nothing."""
    if retry_failed and not go_on:
        raise AskewError("--retry-failed goes with --resume: it continues what failed in an earlier session")


def _combinations(axes: Mapping[str, Range | list[object]], random: int | None, seed: int) -> list[dict[str, object]]:
    """The settings of all configurations, seeds last where they are an axis."""
    if random is not None:
        return random_settings(axes, random, seed)
    values: dict[str, list[object]] = {}
    for key, axis in axes.items():
        if isinstance(axis, Range):
            raise AskewError(f"--grid: {key}={axis} is a range to draw from; add --random N, or write values: A,B,...")
        values[key] = axis
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def _ranked_by(rows: Sequence[Setting]) -> str:
    """What the order goes by, in words."""
    first = max((result for row in rows for result in row.results), key=lambda result: len(result.judged_on))
    name, seeds = first.headline.replace("_", " "), max(len(row.results) for row in rows)
    on = "held-out training examples" if rows[0].by == "held-out" else first.judged_on or "the test data"
    return (f"ranked by {name} in the last round: {on}"
            + (f"; mean over {seeds} seeds \u00b1 their standard deviation" if seeds > 1 else ""))


def _table(rows: Sequence[Setting]) -> Table:
    settings, several = list(rows[0].values), any(len(row.results) > 1 for row in rows)
    name = rows[0].results[0].headline.replace("_", " ")
    made = table(*settings, name if rows[0].by == "last" else f"held-out {name}",
                 *(("\u00b1", "seeds") if several else ()), "", left=settings)
    for row in rows:
        shown = row.results[0].objective.shown
        numbers = ["" if row.mean is None else shown(row.mean)]
        if several:
            numbers += ["" if row.std is None else shown(row.std), str(len(row.scores))]
        made.add_row(*map(str, row.values.values()), *numbers, _remark(row))
    return made


def _remark(row: Setting) -> str:
    """What became of seeds that did not reach their last round."""
    if row.broke_off:
        first = row.broke_off[0]
        reason = f"failed: {first.failed}" if first.failed else first.diverged or ""
        return reason if len(row.results) == 1 else f"{len(row.broke_off)} of {len(row.results)} seeds: {reason}"
    return next((f"{len(result.records)} of {result.recipe.rounds} rounds" for result in row.results
                 if result.interrupted), "")


def _setting(row: Setting) -> dict[str, object]:
    name = row.results[0].headline if row.by == "last" else f"held_out_{row.results[0].headline}"
    return {"settings": dict(row.values), f"{name}_mean": row.mean, f"{name}_std": row.std, "seeds": len(row.scores),
            "broke_off": len(row.broke_off)}


def _row(row: Setting, result: Result) -> dict[str, object]:
    known = result.diverged is None and result.failed is None and bool(result.evaluations)
    last, headline = result.evaluations[-1] if known else {}, result.headline
    held_out = f"held_out_{headline}"
    return {"settings": {**row.values, SEED: result.recipe.seed}, headline: last.get(headline),
            **({held_out: last[held_out]} if held_out in last else {}), "judged_on": result.judged_on,
            "rounds": len(result.records), "diverged": result.diverged, "failed": result.failed,
            "stopped_early": result.stopped_early, "seed": result.recipe.seed,
            "run": None if result.folder is None else str(result.folder)}


def _folder_name(number: int, setting: dict[str, object]) -> str:
    """`003-sgd.lr=0.1-seed=1`; populations and other long values are cut."""
    text = "-".join(f"{key}={value}" for key, value in setting.items())
    plain = re.sub(r"[^\w.=+]+", "-", text)[:60].strip("-")
    return f"{number:03d}-{plain}"


def _axes(texts: Sequence[str]) -> dict[str, Range | list[object]]:
    """The grid: no axis and no value of one twice, which would train the same twice or leave something out."""
    if not texts:
        raise AskewError("sweep needs at least one --grid KEY=A,B,...; for example --grid sgd.lr=0.03,0.1,0.3")
    values: dict[str, Range | list[object]] = {}
    for key, axis in map(_axis, texts):
        if key in values:
            raise AskewError(f"--grid: {key!r} has two axes; write all values in one: --grid {key}=A,B,...")
        if not isinstance(axis, Range) and (twice := [value for i, value in enumerate(axis) if value in axis[:i]]):
            raise AskewError(f"--grid: {key} has the value {shown(twice[0])} twice; the same run again is no further "
                             "evidence")
        values[key] = axis
    return values


def _axis(text: str) -> tuple[str, Range | list[object]]:
    key, equals, values = text.partition("=")
    if (drawn := Range.of(values)) is not None:
        return key.strip(), drawn
    parts = split_outside_brackets(values, ",")
    if not equals or not all(parts):
        raise AskewError(f"--grid takes KEY=A,B,..., got {text!r}")
    return key.strip(), [parse_value(part) for part in parts]
