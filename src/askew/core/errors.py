"""The ways a run can end badly, each with its exit code on the command line, and what messages share."""

import difflib
from collections.abc import Iterable
from typing import Any

LONGEST = 2000  # characters of a message; what it quotes may be a file


class AskewError(ValueError):
    """Bad input. The message is one line, whatever it quotes: what is wrong, the value received, the remedy."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        kept = shortened(str(message), LONGEST)
        super().__init__("".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in kept))


class DivergedError(AskewError):
    """Training produced NaN or infinity. The last good weights are kept."""

    exit_code = 3


class UnwritableError(AskewError):
    """A disk is full, a folder is read-only or gone: what concerns all that is being written, not one configuration."""


class InUseError(AskewError):
    """Another process works in the same folder."""


class PeerError(AskewError):
    """Another process of the run failed: all end, for its reason."""


class LostError(AskewError):
    """Another process of the run is gone, or does not answer."""


def first_line(error: Exception) -> str:
    """What an error of somebody else's says, in short."""
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]


def shown(value: object, most: int = 80) -> str:
    """A value as a message quotes it: in one line, and not longer than that.

    Example:
        >>> shown("0123456789" * 1000, most=16), shown(10**5000)
        ("'0123456...789'", 'int')
    """
    try:
        text = repr(shortened(value, 2 * most) if isinstance(value, str | bytes) else value)
    except Exception:  # whatever somebody's object raises; an int of 5,000 digits is a ValueError
        text = type(value).__name__
    return shortened(" ".join(text.split()), most)


def shortened(text: Any, most: int) -> Any:
    """Text or bytes with the middle left out where it is longer than that."""
    if len(text) <= most:
        return text
    return text[: most // 2] + (b"..." if isinstance(text, bytes) else "...") + text[len(text) - most // 2 + 3 :]


def suggest(name: object, known: Iterable[str]) -> str:
    """The nearest known name, or all of them: the remedy part of an error about an unknown name.

    Names may be those of a file, and of any length and number.
    """
    known = [shortened(name, 80) for name in known]
    near = difflib.get_close_matches(str(name)[:100], known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {shortened(', '.join(known), 1000)}"
