"""Out of memory, in whatever words a device, its libraries, numpy or Python put it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from askew.core.errors import AskewError
from askew.engine.task import Task

_WORDS = re.compile(r"out of memory|can't allocate memory|cannot allocate memory|_ALLOC_FAILED", re.IGNORECASE)
_AMOUNT = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGT]i?B)\b")


def shortage(error: BaseException) -> str | None:
    """How much memory was asked for and not there ("an unknown amount" where nobody says); None for any other error.

    The errors that led to it are looked at, too: a compiler, or the capture of a graph, may raise one of its own.

    Example:
        >>> shortage(RuntimeError("can't allocate memory: you tried to allocate 3221225472 bytes. Error code 12"))
        '3.00 GiB'
        >>> shortage(MemoryError()), shortage(RuntimeError("shapes differ"))
        ('an unknown amount', None)
    """
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        known = isinstance(at, torch.OutOfMemoryError | MemoryError)
        if known or (isinstance(at, RuntimeError) and _WORDS.search(str(at))):
            amount = _AMOUNT.search(str(at))
            return "an unknown amount" if amount is None else _readable(*amount.groups())
        seen.append(at)
        at = at.__cause__ or at.__context__
    return None


def _readable(number: str, unit: str) -> str:
    if unit != "bytes":
        return f"{number} {unit}"
    size = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"


@contextmanager
def fitting(who: str, task: Task, instead: str = "") -> Iterator[None]:
    """Where memory runs out inside, one line about it."""
    try:
        yield
    except Exception as error:
        asked = shortage(error)
        if asked is None:
            raise
        raise does_not_fit(who, task, asked, instead) from None


def does_not_fit(who: str, task: Task, asked: str, instead: str = "") -> AskewError:
    """One line for a client that does not fit the memory.

    Args:
        who: the engine and the client.
        asked: what `shortage` says.
        instead: a remedy to begin with.
    """
    size = task.recipe.batch_size or "all of a client's examples"
    return AskewError(f"{who} does not fit the memory of the device ({task.device}): {asked} more was asked for; take "
                      f"{instead}a smaller batch_size (now {size}), a smaller model, or a device with more memory")
