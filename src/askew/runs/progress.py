"""What a run says while it lasts: lines for a log, more and more seldom, or one live line in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from askew.core.objective import headline_of
from askew.core.recipe import Recipe
from askew.rounds.record import Record

FIRST_S, LONGEST_S = 2.0, 60.0  # nothing longer than the first is silent; a day's log has 1,400 lines, not 43,000
LIVE_S = 0.2  # between two updates of a live line
OnRecord = Callable[[Record, Recipe], None]


class Counted:
    """How far some runs are, in one line.

    Args:
        total: rounds of all of them.
        label: what they are.
    """

    def __init__(self, total: int, label: str) -> None:
        self._total, self._label, self._began = total, label, time.monotonic()
        self._rounds, self._seen = 0, ""

    def count(self, record: Record, recipe: Recipe) -> None:
        headline = headline_of(str(recipe.objective))
        if headline in record:
            self._seen = f", {headline.replace('_', ' ')} {record[headline]:.3f}, loss {record['loss']:.3f}"
        self._rounds += 1

    @property
    def line(self) -> str:
        seconds = timedelta(seconds=round(time.monotonic() - self._began))
        return f"{self._label}: {self._rounds} of {self._total} rounds{self._seen} ({seconds})"


class Lines:
    """Lines from a thread of their own, also while a round or a download takes long: after 2 s, 4 s later, ..., then
    every minute.

    Args:
        say: takes a line.
        first: seconds before the first one.
    """

    def __init__(self, total: int, label: str, say: Callable[[str], None], first: float = FIRST_S) -> None:
        self._counted, self._say, self._first = Counted(total, label), say, first
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def on_round(self, record: Record, recipe: Recipe) -> None:
        self._counted.count(record, recipe)

    def _tell(self) -> None:
        wait = self._first
        while not self._over.wait(wait):
            self._say(self._counted.line)
            wait = min(2 * wait, LONGEST_S)


class LiveLine:
    """One line below a notebook's cell, which changes as rounds go by."""

    def __init__(self, total: int, label: str) -> None:
        from IPython.display import display

        self._counted, self._told = Counted(total, label), time.monotonic()
        self._handle: Any = display(self._content, raw=True, display_id=True)

    @property
    def _content(self) -> dict[str, str]:
        return {"text/plain": self._counted.line}

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.update(self._content, raw=True)

    def on_round(self, record: Record, recipe: Recipe) -> None:
        self._counted.count(record, recipe)
        if time.monotonic() - self._told >= LIVE_S:
            self._told = time.monotonic()
            self._handle.update(self._content, raw=True)


@contextmanager
def shown(total: int, label: str, progress: bool | None, on_round: OnRecord | None) -> Iterator[OnRecord | None]:
    """What to call with each round's record, so that a person sees how far a run is.

    Args:
        progress: None: in a notebook; True: elsewhere, too, as lines on stderr; False: nowhere.
        on_round: of the caller, called as well.
    """
    live = progress is not False and in_notebook()
    if not live and not progress:
        yield on_round
        return
    with LiveLine(total, label) if live else Lines(total, label, _on_stderr) as telling:

        def both(record: Record, recipe: Recipe) -> None:
            telling.on_round(record, recipe)
            if on_round is not None:
                on_round(record, recipe)

        yield both


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; nothing of it is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _on_stderr(line: str) -> None:
    sys.stderr.write(f"askew: {line}\n")
    sys.stderr.flush()
