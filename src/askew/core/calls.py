"""The text of a call, `momentum(beta=0.9)`: Python's grammar, of which recipes need names, numbers, words and brackets.

Nothing is looked up and nothing runs: what the name means is for the registry.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import re
import warnings
from typing import Any

from askew.core.errors import AskewError, shown

LONGEST = 100_000  # characters of a call: a list of some ten thousand numbers
_WARNED_OF = re.compile(r"\\|[\d.](?!e[-+\d])[^\W\d]")  # Python warns of 'C:\data' and 1x; we read or refuse them


def read_call(kind: str, text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`name` or `name(1, key=2)` as name, positional and named arguments; nothing is looked up or checked."""
    unread = f"{kind} {shown(text)} cannot be read; write name or name(argument=value, ...)"
    if not isinstance(text, str) or len(text) > LONGEST:
        raise AskewError(unread)
    head, bracket, rest = text.partition("(")  # a colon behind the bracket belongs to an argument
    module, colon, name = head.rpartition(":")
    tree = expression(name + bracket + rest)
    if isinstance(tree, ast.Name):
        return module + colon + tree.id, [], {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise AskewError(unread)
    keys = [keyword.arg for keyword in tree.keywords if keyword.arg is not None]
    if len(keys) < len(tree.keywords):  # **{...}
        raise AskewError(unread)
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise AskewError(f"{kind} {shown(text)} gives {twice[0]!r} twice; keep one of them")
    try:
        named = {key: _value(keyword.value) for key, keyword in zip(keys, tree.keywords, strict=True)}
        return module + colon + tree.func.id, [_value(argument) for argument in tree.args], named
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # {[1]: 2} is a TypeError
        raise AskewError(unread) from None


@functools.lru_cache(maxsize=1024)
def expression(text: str) -> ast.expr | None:
    """Text as Python's grammar reads it; None where it cannot."""
    with warnings.catch_warnings(action="ignore") if _WARNED_OF.search(text) else contextlib.nullcontext():
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # null bytes, 5,000 digits, 1,000 brackets
            return None


class CallText(str):
    """The text of a call inside a call, which is read when it is known what kind of piece stands there."""

    __slots__ = ()


def _value(node: ast.expr) -> Any:
    words = {"true": True, "false": False, "inf": math.inf, "none": None}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Name):
        return ast.literal_eval("-1e999" if node.operand.id == "inf" else node)
    if isinstance(node, ast.Call):
        return CallText(ast.unparse(node))
    if isinstance(node, ast.List | ast.Tuple) and not any(isinstance(item, ast.Call) for item in node.elts):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict) and not any(isinstance(item, ast.Call | None) for item in [*node.keys, *node.values]):
        return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key is not None}
    return ast.literal_eval(node)
