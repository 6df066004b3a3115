"""Damage to bytes: what disks, networks and people with intent do to a file, drawn from a seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

EDGES = (0, 1, 2, 127, 128, 255, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
NUMBERS = ("0", "-1", "1e999", "-1e999", "nan", "inf", "1e308", "9" * 30, "9" * 5000, "0x10", "1_0", "", "1.5", "true",
           "٣", "2147483648", "9223372036854775808", "18446744073709551616", "1e-400", "[]", "None", '"', "\0", "a\nb")
MOST = 1_000_000  # bytes of a damaged file; growth is the readers' matter


def flip(content: bytearray, draw: Random) -> bytearray:
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return content


def cut(content: bytearray, draw: Random) -> bytearray:
    return content[: draw.randrange(len(content))]


def leave_out(content: bytearray, draw: Random) -> bytearray:
    start, length = block(content, draw)
    return content[:start] + content[start + length :]


def repeat(content: bytearray, draw: Random) -> bytearray:
    start, length = block(content, draw)
    return content[:start] + content[start : start + length] * draw.choice((2, 3, 50, 1000)) + content[start + length :]


def splice(content: bytearray, draw: Random) -> bytearray:
    """A part of the file put elsewhere in it."""
    start, length = block(content, draw)
    at = draw.randrange(len(content))
    return content[:at] + content[start : start + length] + content[at + length * draw.randrange(2) :]


def noise(content: bytearray, draw: Random) -> bytearray:
    start, length = block(content, draw)
    return content[:start] + bytearray(draw.randbytes(length)) + content[start + length :]


def edge(content: bytearray, draw: Random) -> bytearray:
    """A number in binary becomes one at the edge of its range."""
    width, order = draw.choice((1, 2, 4, 8)), draw.choice(("little", "big"))
    at = draw.randrange(len(content))
    there = (draw.choice(EDGES) % 2 ** (8 * width)).to_bytes(width, order)
    return content[:at] + bytearray(there) + content[at + width :]


def number(content: bytearray, draw: Random) -> bytearray:
    """A number in text becomes one that is not expected there."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not found:
        return edge(content, draw)
    chosen = draw.choice(found)
    return content[: chosen.start()] + draw.choice(NUMBERS).encode() + content[chosen.end() :]


def block(content: bytearray, draw: Random) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(draw.choice((1, 4, 16, 100, 1000)), len(content) - start)


WAYS: tuple[Callable[[bytearray, Random], bytearray], ...] = (
    flip, flip, cut, leave_out, repeat, splice, noise, edge, edge, number, number)


def damaged(content: bytes, draw: Random) -> bytes:
    """The content with one to four things wrong."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        changed = draw.choice(WAYS)(changed, draw)[:MOST]
    return bytes(changed)
