"""A live line on stderr while a run trains; silence when nobody watches."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from askew.cli.common import err
from askew.core.objective import objective_of
from askew.core.recipe import Recipe


class RunProgress:
    """Round, headline, loss and time left, for one run after the other."""

    def __init__(self, total: int, label: str, quiet: bool = False) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[seen]}", markup=False), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(), console=err, disable=quiet or not err.is_terminal,
        )
        self._id = self._bar.add_task(label, total=total, seen="")

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._bar.stop()

    def on_round(self, record: dict[str, Any], recipe: Recipe) -> None:
        headline = objective_of(recipe).headline
        if headline in record:
            self._bar.update(self._id,
                             seen=f"{headline.replace('_', ' ')} {record[headline]:.3f}  loss {record['loss']:.3f}")
        self._bar.advance(self._id)
