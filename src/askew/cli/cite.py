"""`askew cite METHOD`: the BibTeX of what a method comes from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from askew.cli.common import AsJson, print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def cite(
    method: Annotated[str, typer.Argument(
        metavar="METHOD", help="A method (fedavgm, fedcd, ...) or a paper's key (zhao2018, ...).")],
    as_json: AsJson = False,
) -> None:
    """Print the BibTeX of the papers that a method comes from."""
    from askew.papers import citations

    text = citations.cite(method)
    if as_json:
        keys = citations.sources(method)
        print_json({"method": method, "sources": list(keys),
                    "bibtex": {key: citations.entries()[key] for key in keys}})
    else:
        sys.stdout.write(text + "\n")  # not through a console: that would wrap lines and read [brackets] as markup
