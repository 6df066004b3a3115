"""Programs that compile side by side and measure one at a time: compiling takes minutes of many cores,
measuring needs a quiet machine.

    python benchmarks/networks.py --networks vit --meet DIR --parties 2 &
    python benchmarks/networks.py --networks lstm --meet DIR --parties 2
"""

from __future__ import annotations

import argparse
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 240.0  # seconds that one waits for the others: one that failed must not hold up all


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--meet", type=Path, help="a folder in which programs that measure in turn meet")
    parser.add_argument("--parties", type=int, default=1, help="how many of them there are")


@contextmanager
def my_turn(meet: Path | None, parties: int) -> Iterator[None]:
    """Wait until all have come here, and then until nobody else is inside."""
    if meet is None:
        yield
        return
    meet.mkdir(parents=True, exist_ok=True)
    (meet / f"ready-{os.getpid()}").touch()
    end = time.monotonic() + LONGEST
    while len(list(meet.glob("ready-*"))) < parties and time.monotonic() < end:
        time.sleep(0.2)
    with (meet / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
