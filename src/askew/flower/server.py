"""The ServerApp: our own loop on Flower's grid.

Flower's `Strategy.start` counts from round 1 always, keeps nothing until it ends, draws clients from the global
generator, waits without limit for nodes, and dies of one malformed reply. Here the rounds are those of a simulation
(`Deployment`), with a checkpoint after each of them.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import torch

from askew.core import interrupt
from askew.core.columns import Columns
from askew.core.errors import AskewError, DivergedError, first_line
from askew.core.files import write_text
from askew.core.recipe import Recipe
from askew.data.schema import SCHEMA, read_schema, schema_text
from askew.engine.threads import use_threads
from askew.flower.deployment import Deployment
from askew.flower.grid_engine import GridEngine
from askew.flower.library import ServerApp, say
from askew.flower.messages import Charge
from askew.flower.roster import Roster, enrol, gather, known_again
from askew.flower.server_task import RECIPES_OWN, ServerTask, build, check_recipe
from askew.flower.settings import ServerSettings, server_settings
from askew.rounds.lasting import check_lasting
from askew.rounds.record import Record
from askew.runs.data_prints import print_of_data, print_of_population
from askew.runs.environment import describe_environment
from askew.runs.folders import check_free, kind_of
from askew.runs.load import load_recipe
from askew.runs.result import Result
from askew.runs.run_folder import FAILED, INTERRUPTED, RunFolder
from askew.runs.running import Running


def server_app(folder: str | Path = ".") -> Any:
    """A ServerApp that runs the recipe which the run's configuration names.

    Args:
        folder: of the app: a recipe without a whole path lies below it.
    """
    def main(grid: Any, context: Any) -> None:
        try:
            serve(grid, server_settings(context.run_config), Path(folder))
        except AskewError as error:
            say(first_line(error))
            raise

    app = ServerApp()
    app.main()(main)
    return app


def serve(grid: Any, settings: ServerSettings, folder: Path = Path()) -> Result:
    """Run a recipe with the clients on a grid, to its end."""
    out = Path(settings.out).expanduser()
    recipe, schema, before = _asked_for(settings, folder, out)
    check_recipe(recipe, parts=settings.data == RECIPES_OWN)
    run = before.run if before else secrets.token_hex(8)
    members = gather(grid, Charge(run, recipe.to_toml(), "" if schema is None else schema_text(schema)), settings)
    roster = known_again(before, members) if before else enrol(run, members)
    sizes = ", ".join(f"{name} ({member.examples})" for name, member in zip(roster.names, roster.members, strict=True))
    say(f"{len(members)} of {len(roster.members)} clients are there, with so many examples: {sizes}")
    with use_threads(1):
        server = build(recipe, roster, settings, schema)
    running, deployment = _begun(server, roster, grid, settings, out, resumed=before is not None)
    if schema is not None:
        write_text(out / SCHEMA, schema_text(schema))
    with interrupt.as_ctrl_c():
        return _rounds(running, deployment)


def _asked_for(settings: ServerSettings, folder: Path, out: Path) -> tuple[Recipe, Columns | None, Roster | None]:
    """The recipe, the schema, and the roster of the run to resume."""
    if settings.resume:
        earlier = RunFolder.open(out)
        earlier.check_checkpoint()
        file = folder / Path(settings.recipe).expanduser()
        if file.exists() and load_recipe(file) != earlier.recipe:
            say(f"the run goes on with the recipe that it began with; {file.name} of the app is another, and counts "
                "for new runs alone")
        return earlier.recipe, read_schema(out / SCHEMA) if (out / SCHEMA).exists() else None, Roster.read(out)
    if out.is_dir() and kind_of(out) == "run":
        raise AskewError(f"out: {str(out)!r} already holds a run; name a new folder (--run-config 'out=\"...\"'), or "
                         "go on with that run (resume=true)")
    check_free(out)
    schema = read_schema(folder / Path(settings.schema).expanduser()) if settings.schema else None
    return load_recipe(folder / Path(settings.recipe).expanduser()), schema, None


def _begun(server: ServerTask, roster: Roster, grid: Any, settings: ServerSettings, out: Path,
           resumed: bool) -> tuple[Running, Deployment]:
    task, recipe = server.task, server.task.recipe
    engine = GridEngine(task, server.form, grid, roster, settings, server.schema)
    about = {"data": print_of_data(task.data), "population": print_of_population(task.population)}
    if resumed:
        deployment = Deployment(task, engine, roster, server.tested, start=task.fresh)
        running = Running.from_checkpoint(deployment, recipe, RunFolder.open(out), about)
        say(f"going on after round {deployment.round} of {recipe.rounds}")
    else:
        deployment = Deployment(task, engine, roster, server.tested)
        check_lasting(deployment.task, deployment.state)
        environment = describe_environment(settings.device, engine=engine.name,
                                           training_threads=deployment.threads.training, replaced={})
        running = Running(deployment, recipe, RunFolder.create(out, recipe, environment), about=about)
    roster.save(out)
    return running, deployment


def _rounds(running: Running, deployment: Deployment) -> Result:
    """All rounds that are left, each with a checkpoint; whatever stops it, what there is has been kept."""
    headline = deployment.task.objective.headline
    try:
        with torch.random.fork_rng(devices=[]):
            while not deployment.finished:
                running.save()
                record = deployment.advance()
                running.add(record)
                score = f"{headline} {record[headline]:.4f}, " if headline in record else ""
                say(f"round {record['round']} of {running.recipe.rounds}: {score}{_attendance(record)}")
            if deployment.can_be_evaluated:
                running.evaluate()
    except DivergedError as error:
        running.end(str(error))
        raise
    except Exception as error:
        running.end(FAILED, failed=first_line(error))
        raise
    except BaseException:
        running.end(INTERRUPTED)
        raise
    return running.end()


def _attendance(record: Record) -> str:
    """Who was asked, and of how many something was left out.

    Example:
        >>> _attendance({"clients": 3}), _attendance({"clients": 3, "dropped_clients": {"late": [1], "failed": [2, 1]}})
        ('3 clients', '3 clients, 2 of them left out')
    """
    asked, out = record["clients"], {client for who in record.get("dropped_clients", {}).values() for client in who}
    return f"{asked} client{'s' if asked != 1 else ''}" + (f", {len(out)} of them left out" if out else "")
