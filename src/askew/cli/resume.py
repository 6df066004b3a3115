"""`askew resume`: continue an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from askew.cli.common import AsJson, DataDir, Imports, import_modules
from askew.cli.progress import Quiet, RunProgress
from askew.cli.run import CheckpointEvery, Device, Engine, Track, each, show, speaking, tracked
from askew.runs.run import resume as go_on
from askew.runs.run_folder import RunFolder

app = typer.Typer()


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder of an interrupted run.")],
    engine: Engine = "auto",
    device: Device = "cpu",
    checkpoint_every: CheckpointEvery = None,
    track: Track = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go on with an interrupted run; the result is the one it would have had without the break."""
    with speaking(engine) as speaks:
        import_modules(imports)
        rounds, label = 0, ""
        if speaks:  # of several processes the others need not have the folder
            recipe = RunFolder.open(folder).recipe
            rounds, label = recipe.rounds, f"{recipe.name} on {recipe.data.name}"
        with tracked(track if speaks else None, folder) as tracking:
            with RunProgress(rounds, label, quiet or not speaks) as progress:
                result = go_on(folder, engine=engine, device=device, data_dir=data_dir,
                               checkpoint_every=checkpoint_every, on_round=each(progress.on_round, tracking))
            show(result, as_json, speaks)
