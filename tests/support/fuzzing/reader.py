"""A reader of files, the cases that it is put through, and what may come of one: a value, or an error of one line."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from askew.core.errors import AskewError
from fuzzing.mutate import damaged

SECONDS, GROWTH = 10, 2**30  # that one case may take, and bytes

Inside = Callable[[bytes, Random], bytes]


@dataclass(frozen=True)
class Reader:
    """What reads one kind of file.

    Args:
        name: of the kind.
        make: writes good files into an empty folder, and gives those that are to be damaged.
        read: one of them.
        opens: the functions of the package that do it, as `data/mnist.py:read_bytes`.
        inside: damage behind a checksum or compression, where that to the file itself would get no further.
        always_ok: for a reader that takes a damaged file for none.
    """

    name: str
    make: Callable[[Path], list[Path]]
    read: Callable[[Path], Any]
    opens: tuple[str, ...]
    inside: Inside | None = None
    always_ok: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `ok`, `refused`, or `raw` (another error, or several lines; too slow; too large)."""

    kind: str
    says: str = ""


class Trial:
    """The cases of a reader, each a function of its number."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader, self.folder = reader, folder

    @cached_property
    def good(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.reader.make(self.folder)}

    def run(self, number: int) -> Outcome:
        draw = Random(f"{self.reader.name} {number}")
        path = draw.choice(sorted(self.good))
        way = self.reader.inside if self.reader.inside is not None and draw.random() < 0.6 else damaged
        path.write_bytes(way(self.good[path], draw))
        try:
            return outcome(self.reader, path)
        finally:
            path.write_bytes(self.good[path])


def outcome(reader: Reader, path: Path) -> Outcome:
    """What becomes of a file."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with time_limit():
            reader.read(path)
        found = Outcome("ok")
    except AskewError as error:
        one_line = str(error).isprintable() and len(str(error)) < 2000
        found = Outcome("refused" if one_line else "raw", str(error))
        if reader.always_ok:
            found = Outcome("raw", f"refused: {error}")
    except Exception as error:
        found = Outcome("raw", f"{type(error).__name__}: {error}")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return Outcome("raw", f"it took {grown:,} bytes ({found.says})") if grown > GROWTH else found


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimeoutError(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
