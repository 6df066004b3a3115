"""How often a run is saved: early, then so that little is lost and saving costs little."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from askew.core.errors import AskewError

SHORTEST_S = 1.0  # between two checkpoints
LONGEST_S = 60.0
LOST_SHARE = 0.05  # of the time so far: what a power cut may cost, between the two
SAVING_SHARE = 0.05  # of the time, at most, goes into saving
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Every:
    """What `--checkpoint-every` asks for: so many rounds, or so many seconds; neither leaves it to `Pace`.

    Example:
        >>> Every.of("10"), Every.of("30s").seconds, Every.of(5).rounds, Every.of(None) == Every()
        (Every(rounds=10, seconds=None), 30, 5, True)
    """

    rounds: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, asked: Every | str | int | None) -> Every:
        """From a number of rounds, or a text such as `10`, `30s`, `5m`, `1h`."""
        if asked is None or isinstance(asked, Every):
            return asked or cls()
        match = re.fullmatch(r"0*([1-9][0-9]{0,8})([smh]?)", str(asked).strip())
        if isinstance(asked, bool) or match is None:
            raise AskewError("checkpoint-every must be a number of rounds (10) or a time (30s, 5m, 1h), "
                             f"above 0, not {asked!r}")
        number, unit = int(match[1]), match[2]
        return cls(seconds=number * UNITS[unit]) if unit else cls(rounds=number)


class Pace:
    """When the next checkpoint is due.

    Without being told: when more than 5% of the time so far would be lost, between a second and a minute after the last
    one, and so that saving takes at most 5% of the time.
    """

    def __init__(self, every: Every) -> None:
        self._every = every
        self._began = self._saved = time.monotonic()
        self._took = 0.0
        self._rounds = 0

    def round_done(self) -> None:
        self._rounds += 1

    @property
    def due(self) -> bool:
        if self._every.rounds is not None:
            return self._rounds >= self._every.rounds
        now = time.monotonic()
        since = now - self._saved
        if self._every.seconds is not None:
            return since >= self._every.seconds
        lost = min(LONGEST_S, max(SHORTEST_S, LOST_SHARE * (now - self._began)))
        return since >= max(lost, self._took / SAVING_SHARE)

    def saved(self, took: float) -> None:
        """A checkpoint was made; it took so many seconds."""
        self._saved, self._took, self._rounds = time.monotonic(), took, 0
