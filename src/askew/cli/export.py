"""`askew export`: a trained model as a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from askew.cli.common import OVERWRITE, Imports, Overwrite, import_modules, out
from askew.core.errors import AskewError
from askew.core.files import check_new
from askew.runs.export import export_onnx, export_torch
from askew.runs.trained import load

app = typer.Typer()


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    onnx: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write ONNX (needs askew's extra 'onnx').")] = None,
    torch: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write a .pt2 file, which torch.export.load reads without askew.")] = None,
    client: Annotated[str | None, typer.Option(help="Whose model, where clients have models of their own.")] = None,
    overwrite: Overwrite = False,
    imports: Imports = None,
) -> None:
    """Write a trained model, with its preprocessing, for other programs.

    Examples:

      askew export runs/first --onnx model.onnx

      askew export runs/first --torch model.pt2 --client north
    """
    import_modules(imports)
    asked = {"--onnx": (onnx, export_onnx), "--torch": (torch, export_torch)}
    files = [(option, path, write) for option, (path, write) in asked.items() if path is not None]
    if not files:
        raise AskewError("export: name a file to write: --onnx FILE or --torch FILE")
    if onnx is not None and torch is not None and onnx.absolute() == torch.absolute():
        raise AskewError(f"--onnx and --torch name one file, {str(onnx)!r}; name two")
    for option, path, _ in files:
        check_new(path, option, OVERWRITE, overwrite)
    if torch is not None and torch.suffix != ".pt2":
        raise AskewError(f"--torch: {str(torch)!r} must end in .pt2, by which torch knows such files")
    model = load(folder)
    for _, path, write in files:
        write(model, path, client)
        out.print(f"written: {path}", soft_wrap=True)
