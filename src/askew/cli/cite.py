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
        metavar="METHOD", help="A method (fedavgm, 'fedprox(mu=0.1)', fedprox+fedavgm), or a paper's key (zhao2018).")],
    as_json: AsJson = False,
) -> None:
    """Print the BibTeX of the papers that a method comes from."""
    from askew.papers import citations

    names = _names(method)
    keys = list(dict.fromkeys(key for name in names for key in citations.sources(name)))
    entries = {key: citations.entries()[key] for key in keys}
    if as_json:
        print_json({"method": method, "sources": keys, "bibtex": entries})
    else:  # not through a console, which would wrap lines
        sys.stdout.write(("\n\n".join(entries.values()) or citations.cite(names[0])) + "\n")


def _names(method: str) -> list[str]:
    """Of methods or papers, without their arguments, which are checked; a plain name loads nothing heavy."""
    if "(" not in method and "+" not in method:
        return [method]
    from askew.core import registry
    from askew.runs.load import method_calls

    return [registry.parse("method", call).name if "(" in call else call for call in method_calls(method)]
