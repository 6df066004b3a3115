"""Ctrl-C, SIGTERM and SIGHUP (SLURM, containers, a closed terminal): each stops a run as Ctrl-C does.

A signal raises KeyboardInterrupt where the program is, but never in the middle of a shielded block: that is
done whole first. Once one has been raised, those that follow wait: saving what there is takes a moment, and is
not to be lost to impatience.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# After which a first signal that has led to nothing must have been swallowed: the next one raises again.
SWALLOWED_S = 5.0


class _State:
    depth = 0  # of shielded blocks
    first: float | None = None  # when a signal came
    waiting = False  # it has not been raised yet


@contextlib.contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Within the block all of SIGNALS do what Ctrl-C does; those already handled or ignored (nohup) stay so."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    plain = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) in plain}
    for number in before:
        signal.signal(number, _handle)
    if before:
        _State.first, _State.waiting = None, False
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if before:
            _State.first, _State.waiting = None, False


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """A block that is done whole; a signal that comes meanwhile raises KeyboardInterrupt at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
    _raise_what_waits()


def came() -> bool:
    """Whether a signal has come, for the thread that signals are for."""
    return _State.first is not None and threading.current_thread() is threading.main_thread()


def check() -> None:
    """Raise KeyboardInterrupt if a signal has come, again where that was swallowed on its way: Python passes over what
    is raised in a destructor, and a caller's function may catch all."""
    if came() and _State.depth == 0:
        _State.waiting = False
        raise KeyboardInterrupt


def _raise_what_waits() -> None:
    if _State.waiting:
        check()


def _handle(number: int, frame: FrameType | None) -> None:
    now, first = time.monotonic(), _State.first
    if first is None or now - first > SWALLOWED_S:
        _State.first, _State.waiting = now, True
    _raise_what_waits()
