"""The engines by name."""

from __future__ import annotations

from collections.abc import Callable

from askew.core.errors import AskewError
from askew.core.registry import suggest
from askew.simulate.sequential import Engine, Sequential
from askew.simulate.task import Task
from askew.simulate.vectorised import Vectorised

ENGINES: dict[str, Callable[[Task], Engine]] = {"sequential": Sequential, "vectorised": Vectorised}


def make_engine(name: str, task: Task) -> Engine:
    """The engine of that name for a task; "auto" takes the one that suits it."""
    if name == "auto":
        return Sequential(task)
    if name not in ENGINES:
        raise AskewError(f"unknown engine {name!r}; {suggest(name, ['auto', *ENGINES])}")
    return ENGINES[name](task)
