"""Where the weights of a run start from."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from askew.core.registry import Spec
from askew.core.tensors import ModelState


@dataclass(frozen=True)
class Start:
    """`make(task, fresh)` turns freshly initialised weights into those that round 1 begins with.

    Args:
        depends_on: for a start that takes long to make: all that it depends on, of a task. Runs for which that is
            equal, and which name the start in the same words, share one.
    """

    make: Callable[[Any, ModelState], ModelState]
    depends_on: Callable[[Any], Hashable] | None = None
    spec: Spec | None = None
