"""`askew deploy`: the same recipe on Flower, as an app to take along, or tried on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from askew.cli.common import AsJson, Imports, err, given, import_modules, out, print_json
from askew.cli.progress import Quiet
from askew.cli.run import Methods, Settings
from askew.runs.default_job import DEPLOYED

app = typer.Typer(no_args_is_help=True, help="The same recipe on Flower: real clients, TLS, node keys.")
File = Annotated[Path | None, typer.Option(
    "--recipe", metavar="FILE", help="A recipe in TOML; without one, FedAvg on the embedded digits.")]
Seed = Annotated[int | None, typer.Option(help="Seed of every random stream.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or an empty one.")],
    file: File = None,
    method: Methods = None,
    settings: Settings = None,
    seed: Seed = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write a Flower app that runs a recipe: apps, configuration, key script, and a README with the exact commands.

    Examples:

      askew deploy init hospitals --recipe hospitals.toml
    """
    from askew.flower.app_folder import write_app
    from askew.flower.preparation import prepare
    from askew.runs.load import load_recipe

    import_modules(imports)
    prepared = prepare(load_recipe(file, settings or [], method).replace(**given(seed=seed)))
    recipe, schema = prepared.recipe, prepared.schema
    files = write_app(folder, recipe, schema, modules=imports or ())
    if prepared.without:
        err.print(f"askew: no schema: {prepared.without}; each node encodes its table by itself, and those that differ "
                  "in columns or categories take no part", soft_wrap=True)
    if as_json:
        print_json({"folder": str(folder), "files": [str(path.relative_to(folder)) for path in files],
                    "recipe": recipe.name, "seed": recipe.seed, "inputs": None if schema is None else schema.inputs})
    else:
        if schema is not None:
            out.print(f"schema: {len(schema.used)} columns of a table as {len(schema.inputs)} inputs; names, words and "
                      f"means in {folder / 'federation' / 'schema.json'} travel to all nodes: look at it before",
                      soft_wrap=True)
        out.print(f"app: {folder}; go on with {folder / 'README.md'}", soft_wrap=True)


@app.command(name="try")
def try_it(
    file: File = None,
    method: Methods = None,
    settings: Settings = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds; 3 where no recipe is named.")] = None,
    seed: Seed = None,
    folder: Annotated[Path | None, typer.Option(
        "--keep", metavar="DIR", help="A new folder for app, keys, logs and run; else nothing stays.")] = None,
    imports: Imports = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Deploy a recipe on this machine: a SuperLink and one SuperNode per client, with TLS and node keys, on loopback.

    Prints the curve beside the simulation's. Without a recipe: FedAvg, 3 clients, the embedded digits.

    Examples:

      askew deploy try

      askew deploy try --method scaffold --rounds 5 --json
    """
    from askew.flower.trial import try_recipe
    from askew.runs.load import load_recipe

    import_modules(imports)
    recipe = load_recipe(file, settings or [], method, None if file else DEPLOYED)
    recipe = recipe.replace(**given(rounds=rounds, seed=seed))

    def say(line: str) -> None:
        if not quiet:
            err.print(f"askew: {line}", soft_wrap=True)

    trial = try_recipe(recipe, say, lambda record: say(f"round {record['round']} of {recipe.rounds}"), folder,
                       imports or ())
    simulated, headline = trial.simulated, trial.simulated.headline
    curves = [(one["round"], one[headline], other[headline])
              for one, other in zip(trial.records, simulated.records, strict=True) if headline in one]
    if as_json:
        print_json({"headline": headline, "rounds": [list(row) for row in curves], "seed": recipe.seed,
                    "method": recipe.name, "largest_difference": trial.largest_difference,
                    "clients": simulated.records[-1]["clients"], "start_seconds": round(trial.start_s, 1),
                    "run_seconds": round(trial.run_s, 1), **({"folder": str(folder)} if folder else {})})
        return
    table = Table("round", "deployed", "simulated", title=f"{recipe.name} on {recipe.data.name}: {headline}")
    for number, one, other in curves:
        table.add_row(str(number), simulated.objective.shown(one), simulated.objective.shown(other))
    out.print(table)
    out.print(f"largest difference {trial.largest_difference:.2g}; {trial.start_s:.1f} s to start, "
              f"{trial.run_s:.1f} s for {len(trial.records)} rounds"
              + (f"; all that it made is in {folder}" if folder else ""), soft_wrap=True)
