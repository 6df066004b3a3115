"""The ways a run can end badly, each with its exit code on the command line, and what messages share."""

import difflib
from collections.abc import Iterable


class AskewError(ValueError):
    """Bad input. The message is one line: what is wrong, the value received, the remedy."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        # Names of files and what stands in them are quoted: none of it may break the line or speak to the terminal.
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class DivergedError(AskewError):
    """Training produced NaN or infinity. The last good weights are kept."""

    exit_code = 3


class UnwritableError(AskewError):
    """A disk is full, a folder is read-only or gone: what concerns all that is being written, not one configuration."""


class InUseError(AskewError):
    """Another process works in the same folder."""


def first_line(error: Exception) -> str:
    """What an error of somebody else's says, in short."""
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]


def suggest(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them: the remedy part of an error about an unknown name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
