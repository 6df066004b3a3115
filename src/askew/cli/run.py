"""`askew run`: train one recipe."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from askew.cli.common import AsJson, DataDir, Imports, Missing, err, given, import_modules, out, print_json
from askew.cli.progress import Quiet, RunProgress
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.engine.peers import DISTRIBUTED, in_step
from askew.rounds.left_out import in_words
from askew.rounds.record import Record
from askew.runs.folders import default_folder
from askew.runs.load import load_recipe
from askew.runs.result import Result
from askew.runs.run import run as train

app = typer.Typer()
OnRound = Callable[[Record, Recipe], None]
CheckpointEvery = Annotated[str | None, typer.Option(
    "--checkpoint-every", metavar="N|TIME",
    help="Save every N rounds, or every 30s, 5m, 1h; else so that little is lost.")]
Engine = Annotated[str, typer.Option(
    help="How rounds are computed: auto, sequential, vectorised, parallel; under torchrun: distributed.")]
Precision = Annotated[str, typer.Option(help="Of the vectorised engine on a GPU: fp32, tf32 or bf16.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
RecipeFile = Annotated[Path | None, typer.Argument(
    help="A recipe in TOML; without one, FedAvg on the embedded digits.")]
Settings = Annotated[list[str] | None, typer.Option(
    "--set", metavar="KEY=VALUE",
    help="A field of the recipe (rounds=20) or an argument of one of its pieces (sgd.lr=0.05).")]

Track = Annotated[str | None, typer.Option(
    metavar="TRACKER", help="Send each round to tensorboard, mlflow or wandb, too.")]
Methods = Annotated[list[str] | None, typer.Option(
    "--method", metavar="METHOD", help="A method, e.g. fednnnn or 'fedprox(mu=0.1)'; + between several, or repeated.")]


@app.command()
def run(
    file: RecipeFile = None,
    settings: Settings = None,
    method: Methods = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random stream.")] = None,
    folder: Annotated[Path | None, typer.Option(
        "--out", metavar="DIR", help="The run folder; else a new one under runs/.")] = None,
    overwrite: Annotated[bool, typer.Option(
        "--overwrite", help="Replace a run that DIR holds; only what askew wrote goes.")] = False,
    stop_after_no_gain: Annotated[int | None, typer.Option(
        "--stop-after-no-gain", metavar="N",
        help="Stop when held-out examples have not gained in N rounds; the population must hold some out.")] = None,
    missing: Missing = None,
    checkpoint_every: CheckpointEvery = None,
    engine: Engine = "auto",
    precision: Precision = "fp32",
    device: Device = "cpu",
    track: Track = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train one recipe and keep the result in a run folder.

    Examples:

      askew run

      askew run --method fednnnn --set rounds=30 --set sgd.lr=0.05

      askew run experiment.toml --seed 1 --out runs/first

      askew run hospital.toml --missing indicator
    """
    with speaking(engine) as speaks:
        import_modules(imports)
        options = given(**{"seed": seed, "stop_after_no_gain": stop_after_no_gain, "data.missing": missing})
        said = [f"{key}={value}" for key, value in options.items()]
        recipe = load_recipe(file, [*(settings or []), *said], method)
        place = (default_folder(f"{recipe.name}-{recipe.data.name}") if speaks and not folder
                 else nullcontext(folder if speaks else None))
        with place as path, tracked(track if speaks else None, path) as tracking:
            with RunProgress(recipe.rounds, f"{recipe.name} on {recipe.data.name}", quiet or not speaks) as progress:
                result = train(recipe, engine=engine, precision=precision, device=device, data_dir=data_dir,
                               overwrite=overwrite, checkpoint_every=checkpoint_every, out=path,
                               on_round=each(progress.on_round, tracking))
            show(result, as_json, speaks)


@contextmanager
def speaking(engine: str) -> Iterator[bool]:
    """Whether this process prints and writes: of several that train one run, the first."""
    alike = int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    if engine != DISTRIBUTED and alike > 1:
        raise AskewError(f"torchrun has started {alike} processes, and with --engine {engine} each would do the whole "
                         "run; add --engine distributed, or start askew without torchrun")
    with in_step(engine) as peers, warnings.catch_warnings():
        if peers is not None and not peers.leads:
            warnings.simplefilter("ignore")
        yield peers is None or peers.leads


def tracked(to: str | None, folder: Path | None) -> AbstractContextManager[OnRound]:
    """What sends rounds to a tracker, where one is wanted; a run that does not reach its end is marked so there."""
    if to is None or folder is None:
        return nullcontext(each())
    from askew.tracking import Tracking

    return Tracking(to, folder)


def each(*functions: OnRound) -> OnRound:
    """One `on_round` of several."""
    def on_round(record: Record, recipe: Recipe) -> None:
        for function in functions:
            function(record, recipe)

    return on_round


def show(result: Result, as_json: bool, speaks: bool = True) -> None:
    """The end of a run, for a person or for a program; nothing of a process that does not speak."""
    rounds = len(result.records)
    if not speaks:
        if result.interrupted:
            raise typer.Exit(130)
        return
    if as_json:
        print_json({result.headline: result.score, "headline": result.headline, "judged_on": result.judged_on,
                    "rounds": rounds,
                    "seed": result.recipe.seed, "run": str(result.folder), "method": result.recipe.name,
                    "loss": result.evaluations[-1]["loss"] if result.evaluations else None,
                    "seconds": round(result.seconds, 3), "interrupted": result.interrupted,
                    **({"stopped_early": result.stopped_early} if result.stopped_early else {}),
                    **({"dropped": result.dropped} if result.dropped else {})})
    else:
        score, best = "not evaluated yet", ""
        if result.evaluations:
            score = result.objective.shown(result.score)
            best = f", best {result.objective.shown(result.best[result.headline])} in round {result.best['round']}"
        out.print(Text.assemble(f"{result.recipe.name} on {result.recipe.data.name}: "
                                f"{result.headline.replace('_', ' ')} ",
                                (score, "bold"),
                                f" after {rounds} rounds{best}  ({result.seconds:.1f} s)"))
        if result.evaluations:
            out.print(f"{result.headline.replace('_', ' ')}: {result.judged_on}")
        if result.stopped_early:
            out.print(f"stopped early: {result.stopped_early}")
        if result.dropped:
            out.print(in_words(result.dropped))
        out.print(f"run folder: {result.folder}", soft_wrap=True)
    if result.interrupted:
        err.print(f"interrupted after {rounds} of {result.recipe.rounds} rounds; continue with: "
                  f"askew resume {result.folder}", soft_wrap=True)
        raise typer.Exit(130)
