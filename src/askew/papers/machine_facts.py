"""Small facts about this machine, kept in the cache folder: what was measured once need not be measured again."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError
from askew.core.files import read_json, write_json

Facts = dict[str, dict[str, float]]  # machine -> what -> a number above 0


def recall(path: Path) -> Facts:
    """What is remembered; nothing where there is no such file, or one that is not ours."""
    try:
        known = read_json(path, "file of facts about this machine")
    except AskewError:
        return {}
    return {machine: {what: number for what, number in facts.items() if _is_fact(number)}
            for machine, facts in known.items() if isinstance(facts, dict)}


def remember(path: Path, known: Facts) -> None:
    """A folder that cannot be written to costs a measurement each time, no more."""
    with contextlib.suppress(OSError, AskewError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, known)


def _is_fact(number: Any) -> bool:
    return type(number) is float and math.isfinite(number) and number > 0
