"""How far a run is, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from askew.cli.common import err
from askew.core.objective import headline_of
from askew.core.recipe import Recipe
from askew.runs.progress import Lines

Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing while it runs; results and errors only.")]


class RunProgress:
    """Round, headline, loss and time left, for one run after the other."""

    def __init__(self, total: int, label: str, quiet: bool = False) -> None:
        on_terminal = err.is_terminal and not quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[seen]}", markup=False), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(), console=err, disable=not on_terminal,
        )
        self._id = self._bar.add_task(label, total=total, seen="")
        self._lines = None if quiet or on_terminal else Lines(total, label, _say)

    def __enter__(self) -> RunProgress:
        self._bar.start()
        if self._lines:
            self._lines.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._lines:
            self._lines.__exit__()
        self._bar.stop()

    def on_round(self, record: dict[str, Any], recipe: Recipe) -> None:
        if self._lines:
            self._lines.on_round(record, recipe)
            return
        headline = headline_of(str(recipe.objective))
        if headline in record:
            self._bar.update(self._id,
                             seen=f"{headline.replace('_', ' ')} {record[headline]:.3f}  loss {record['loss']:.3f}")
        self._bar.advance(self._id)


def _say(line: str) -> None:
    err.print(f"askew: {line}", soft_wrap=True)
