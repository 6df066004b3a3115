"""What every command shares: errors in one line, JSON on stdout, everything for people on stderr or a table."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from askew.core.errors import AskewError, first_line
from askew.core.files import finite


def console(**options: Any) -> Console:
    """Where text is printed as it is: names come from users' files, and [brackets] or :words: in them are no markup."""
    return Console(highlight=False, markup=False, emoji=False, **options)


# Results go to stdout; progress and notes go to stderr, so that a pipe or --json sees results only.
out = console()
err = console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of a table.")]
DataDir = Annotated[str | None, typer.Option(
    "--data-dir", help="Where data sets are; else $ASKEW_DATA, else the cache folder.", metavar="DIR")]
Imports = Annotated[list[str] | None, typer.Option(
    "--import", metavar="MODULE",
    help="Import a module with pieces of your own, from here or where Python looks; may be repeated.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
Missing = Annotated[Literal["mean", "indicator", "drop"] | None, typer.Option(
    help="What becomes of empty cells of a table; else they are refused.")]
OVERWRITE = "name another file, or add --overwrite"  # the remedy of commands that take it


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def page(width: int = 100) -> Console:
    """Where tables are printed: standard output, and as wide as that where it is a pipe, which has no width."""
    return out if out.is_terminal else console(width=max(out.width, width))


def table(*columns: str, left: Sequence[str] = ("",)) -> Table:
    """An empty table.

    Args:
        left: the columns of words; the others are of numbers.
    """
    made = Table(box=None, header_style="bold")
    for name in columns:
        made.add_column(name, justify="left" if name in left else "right")
    return made


def import_modules(names: list[str] | None) -> None:
    """What `--import` asks for: the modules file their pieces. No file ever causes an import."""
    folder = os.getcwd()
    if names and folder not in sys.path:
        sys.path.append(folder)  # last, so that nothing that lies around here takes another module's place
    for name in names or []:
        try:
            importlib.import_module(name)
        except Exception as error:  # the module's own, too
            raise AskewError(f"--import {name}: the module cannot be imported: {first_line(error)}") from None


def print_json(value: Any) -> None:
    """One JSON object on stdout; numbers that JSON cannot hold (NaN, infinity) become null."""
    sys.stdout.write(json.dumps(finite(value), allow_nan=False) + "\n")
