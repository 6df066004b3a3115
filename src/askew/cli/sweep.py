"""`askew sweep`: a grid of settings, those of equal shape trained at once."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from askew.cli.common import AsJson, DataDir, out, print_json, split_outside_brackets
from askew.cli.progress import RunProgress
from askew.cli.run import Device, Engine, Precision, Settings
from askew.core.errors import AskewError
from askew.core.recipe import parse_value
from askew.recipes.load import load_recipe
from askew.simulate.sweep import Outcome, grid
from askew.simulate.sweep import sweep as train

app = typer.Typer()


@app.command()
def sweep(
    file: Annotated[Path | None, typer.Argument(help="A recipe in TOML; without one, FedAvg on the embedded digits.")] = None,
    axes: Annotated[list[str] | None, typer.Option(
        "--grid", metavar="KEY=A,B,...", help="Values of one setting; repeat for more axes.")] = None,
    settings: Settings = None,
    method: Annotated[str | None, typer.Option(help="A method of the papers, e.g. fedavgm.")] = None,
    engine: Engine = "auto",
    precision: Precision = "fp32",
    device: Device = "cpu",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train all combinations of some settings and rank them.

    Learning rates, momenta, thresholds, seeds and populations train together, as one computation.

    Example:

      askew sweep --method fedavgm --grid sgd.lr=0.03,0.1,0.3 --grid momentum.beta=0.7,0.9 --grid seed=0,1,2
    """
    values = dict(_axis(text) for text in axes or [])
    if not values:
        raise AskewError("sweep needs at least one --grid KEY=A,B,...; for example --grid sgd.lr=0.03,0.1,0.3")
    recipes = grid(load_recipe(file, settings or [], method), values)
    with RunProgress(sum(r.rounds for r in recipes), f"{len(recipes)} configurations") as progress:
        outcomes = train(recipes, engine=engine, precision=precision, device=device, data_dir=data_dir,
                         on_round=lambda i, record, recipe: progress.on_round(record, recipe))
    combinations = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]  # in the order of `grid`
    rows = sorted(zip(combinations, outcomes, strict=True), key=lambda row: 1.0 if row[1].diverged else -row[1].result.best["accuracy"])
    if as_json:
        print_json({"configurations": [_row(setting, outcome) for setting, outcome in rows]})
        return
    table = Table(box=None, header_style="bold")
    for name in (*values, "accuracy", "best", "in round", ""):
        table.add_column(name, justify="left" if name in values else "right")
    for setting, outcome in rows:
        result = outcome.result
        numbers = ("", "", "", outcome.diverged) if outcome.diverged else (
            f"{result.accuracy:.2%}", f"{result.best['accuracy']:.2%}", str(result.best["round"]), "")
        table.add_row(*map(str, setting.values()), *numbers)
    out.print(table)


def _row(setting: dict[str, object], outcome: Outcome) -> dict[str, object]:
    result = outcome.result
    done = outcome.diverged is None
    return {"settings": setting, "accuracy": result.accuracy if done else None, "best_accuracy": result.best["accuracy"] if done else None,
            "best_round": result.best["round"] if done else None, "diverged": outcome.diverged, "seed": outcome.recipe.seed}


def _axis(text: str) -> tuple[str, list[object]]:
    key, equals, values = text.partition("=")
    parts = split_outside_brackets(values, ",")
    if not equals or not all(parts):
        raise AskewError(f"--grid takes KEY=A,B,..., got {text!r}")
    return key.strip(), [parse_value(part) for part in parts]
