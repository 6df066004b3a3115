"""`askew report`: runs as one page for the browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from askew.cli.common import AsJson, Imports, Overwrite, err, import_modules, out, print_json
from askew.core.errors import AskewError
from askew.runs.folders import PAGE

app = typer.Typer()


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(
        metavar="RUN...", help="Folders of runs, of a comparison or of a sweep; all of one task.")],
    file: Annotated[Path | None, typer.Option(
        "--out", metavar="FILE", help=f"The page, .html; else {PAGE} in the folder that all of them lie in.")] = None,
    overwrite: Overwrite = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that shows runs: curves, clients, classes, population, bytes, recipes, what to cite.

    The page holds all that it needs: it opens from the disk and asks for nothing from the net.

    Examples:

      askew report runs/20260101-120000-compare

      askew report runs/first runs/second --out both.html
    """
    from askew.report.page import write_page

    import_modules(imports)
    if file is not None and file.suffix.lower() not in (".html", ".htm"):
        raise AskewError(f"--out: {str(file)!r} is to be a page; give it a name that ends in .html")
    path = write_page(folders, file or _common(folders) / PAGE, overwrite=overwrite)
    if as_json:
        print_json({"page": str(path), "bytes": path.stat().st_size})
    else:
        out.print(f"page: {path}", soft_wrap=True)


def page_of(folder: Path) -> Path | None:
    """The page of what has just been written to a folder; without one, a line that says why, and nothing is lost."""
    from askew.report.page import write_page

    try:
        return write_page([folder], folder / PAGE, overwrite=True)
    except AskewError as error:
        err.print(f"no page: {error}", soft_wrap=True)
        return None


def _common(folders: list[Path]) -> Path:
    """The one folder, or the first that all of them lie in."""
    if len(folders) == 1:
        return folders[0]
    try:
        return Path(os.path.relpath(os.path.commonpath([folder.absolute().parent for folder in folders])))
    except ValueError:  # on different drives
        raise AskewError("the folders have none in common; name the page with --out FILE.html") from None
