"""Small facts about this machine that are kept in the cache folder: what was measured once need not be measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def recall(path: Path) -> dict[str, Any]:
    """What is remembered; nothing where there is no such file, or one that is not ours."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def remember(path: Path, known: dict[str, Any]) -> None:
    """Written beside the old file, then renamed. A folder that cannot be written to costs a measurement each time, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(known, indent=1))
        fresh.replace(path)
    except OSError:
        return
