"""Messages out, replies back: by message id, each wait bounded, no reply able to stop the others.

Flower's own `send_and_receive` polls every 3 s, and raises where one reply of many cannot be read. An error that comes
before the reply is not final (the reply may still be on its way in pieces), but for those of the client's own program.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from askew.core import interrupt
from askew.core.errors import first_line
from askew.flower.library import ErrorCode, Message

Key = TypeVar("Key", bound=Hashable)
FINAL = (ErrorCode.LOAD_CLIENT_APP_EXCEPTION, ErrorCode.CLIENT_APP_RAISED_EXCEPTION)
AWAY_S = 5.0  # how long a node must be said to be away before it is given up
UNREADABLE = 3  # times that a reply could not be read before it is given up
LONGEST_REASON = 200  # characters of what a node says went wrong


@dataclass(frozen=True)
class Failure:
    """Why there is no reply.

    Args:
        kind: a word for records: "late", "failed", "away" or "unreadable".
        reason: in words.
    """

    kind: str
    reason: str


def exchange(grid: Any, kind: str, contents: Mapping[Key, tuple[int, Any]], group: str, deadline_s: float,
             poll_s: float) -> dict[Key, Any]:
    """Send messages and wait for their replies.

    Args:
        kind: of message.
        contents: who is asked -> (node, what).
        group: names the round for Flower.
        deadline_s: seconds until those who have not replied are late.

    Returns:
        who was asked -> the reply's content, or a `Failure`.
    """
    ends = time.monotonic() + deadline_s
    result: dict[Key, Any] = {}
    pending: dict[str, Key] = {}
    messages = [Message(content, node, kind, ttl=deadline_s, group_id=group) for node, content in contents.values()]
    for key, number in zip(contents, _pushed(grid, messages), strict=True):
        if number:
            pending[number] = key
        else:
            result[key] = Failure("away", "no such node is connected")
    away: dict[str, float] = {}
    unreadable: dict[str, int] = {}
    said: dict[str, str] = {}  # errors that may not be final
    while pending and time.monotonic() < ends:
        for number, reply in _pulled(grid, list(pending)):
            if number not in pending:
                continue
            failure = None
            if isinstance(reply, Exception):
                unreadable[number] = unreadable.get(number, 0) + 1
                if unreadable[number] >= UNREADABLE:
                    failure = Failure("unreadable", first_line(reply)[:LONGEST_REASON])
            elif not reply.has_error():
                result[pending.pop(number)] = reply.content
            else:
                reason = str(reply.error.reason or f"error {reply.error.code}")[:LONGEST_REASON]
                said[number] = reason
                if reply.error.code in FINAL:
                    failure = Failure("failed", reason)
                elif (reply.error.code == ErrorCode.NODE_UNAVAILABLE
                      and time.monotonic() - away.setdefault(number, time.monotonic()) >= AWAY_S):
                    failure = Failure("away", reason)
            if failure is not None:
                result[pending.pop(number)] = failure
        interrupt.check()
        if pending:
            time.sleep(min(poll_s, max(0.0, ends - time.monotonic())))
    for number, key in pending.items():
        more = f" ({said[number]})" if number in said else ""
        result[key] = Failure("late", f"no reply within {deadline_s:g} s{more}")
    return {key: result[key] for key in contents}


def _pushed(grid: Any, messages: list[Any]) -> list[str | None]:
    """The messages' ids, in their order; None of one that could not be sent."""
    ids = list(grid.push_messages(messages)) if messages else []
    return ids if len(ids) == len(messages) else [*ids, *[None] * (len(messages) - len(ids))]


def _pulled(grid: Any, numbers: list[str]) -> list[tuple[str, Any]]:
    """Replies that have come, by the id of the message that they answer; an exception in place of one that cannot be
    read. Where one of several cannot, they are asked for one by one."""
    try:
        return [(reply.metadata.reply_to_message_id, reply) for reply in grid.pull_messages(numbers)]
    except Exception as error:
        if len(numbers) == 1:
            return [] if _is_transport(error) else [(numbers[0], error)]
        if _is_transport(error):  # the link is away for a while: the deadline decides
            return []
    return [pair for number in numbers for pair in _pulled(grid, [number])]


def _is_transport(error: Exception) -> bool:
    """Whether the trouble lies between server and link, not in a reply."""
    return type(error).__module__.partition(".")[0] in ("httpx", "httpcore", "grpc") or isinstance(error, OSError)
