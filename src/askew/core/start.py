"""Where the weights of a run start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from askew.core.registry import Spec
from askew.core.tensors import ModelState


@dataclass(frozen=True)
class Start:
    """`make(task, fresh)` turns freshly initialised weights into those that round 1 begins with."""

    make: Callable[[Any, ModelState], ModelState]
    spec: Spec | None = None
