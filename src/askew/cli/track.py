"""`askew track`: send runs that lie on disk to a tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from askew.cli.common import AsJson, Imports, import_modules, out, print_json
from askew.core.errors import AskewError
from askew.runs.folders import METRICS, RECIPE
from askew.tracking import send

app = typer.Typer()


@app.command()
def track(
    folders: Annotated[list[Path], typer.Argument(
        metavar="FOLDER...", help="Run folders, or folders of comparisons and sweeps, whose runs are sent each.")],
    to: Annotated[str, typer.Option(metavar="TRACKER", help="tensorboard, mlflow or wandb.")],
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Send runs, finished or not, to TensorBoard, MLflow or Weights & Biases; the folders stay as they are.

    TensorBoard's files go into `tensorboard` in each run folder. `askew run --track` sends rounds while they train.

    Examples:

      askew track runs/first --to tensorboard

      askew track runs/compare --to mlflow
    """
    import_modules(imports)
    runs = [run for folder in folders for run in runs_in(folder)]
    sent = {str(run): send(run, to) for run in runs}
    if as_json:
        print_json({"to": to, "rounds": sent})
    else:
        out.print(f"{len(sent)} {'run' if len(sent) == 1 else 'runs'}, {sum(sent.values())} rounds sent to {to}")


def runs_in(folder: Path) -> list[Path]:
    """The folder itself where it is a run's, else all run folders in it."""
    if (folder / RECIPE).is_file():
        return [folder]
    folders = sorted(path.parent for path in folder.rglob(METRICS) if (path.parent / RECIPE).is_file())
    if not folders:
        raise AskewError(f"{str(folder)!r} is no run folder, and holds none; name one that `askew run` wrote")
    return folders
