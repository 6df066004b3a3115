"""`askew resume`: go on with an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from askew.cli.common import AsJson, DataDir, Imports, import_modules
from askew.cli.progress import Quiet, RunProgress
from askew.cli.run import CheckpointEvery, Device, Engine, Track, each, show, tracked
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
    import_modules(imports)
    recipe = RunFolder.open(folder).recipe
    with tracked(track, folder) as tracking:
        with RunProgress(recipe.rounds, f"{recipe.name} on {recipe.data.name}", quiet) as progress:
            result = go_on(folder, engine=engine, device=device, data_dir=data_dir, checkpoint_every=checkpoint_every,
                           on_round=each(progress.on_round, tracking))
        show(result, as_json)
