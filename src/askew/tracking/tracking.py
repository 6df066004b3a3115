"""What all trackers have in common: rounds go to one of them, and none of its troubles is the run's."""

from __future__ import annotations

import importlib
import math
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from askew.core.arguments import checked
from askew.core.errors import AskewError, first_line, shown, suggest
from askew.core.recipe import Recipe
from askew.runs.run_folder import RunFolder

# name -> the package that it needs; `askew.tracking.NAME` has its `start`
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


class Tracker(Protocol):
    """Where the numbers of one run go."""

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        """Those of one round, by name."""

    def end(self, finished: bool) -> None:
        """No more come; `finished`: the run has come to its end."""


# (the run's folder, the fields of its recipe) -> the tracker
StartTracker = Callable[[Path, Mapping[str, Any]], Tracker]


class Tracking:
    """Follows one run: give it to `askew.run` as `on_round`.

    A tracker that fails costs one line of warning, and the run goes on without it.

    Args:
        to: "tensorboard", "mlflow" or "wandb", or a function that starts a tracker of your own:
            (the run's folder, the fields of its recipe) -> `Tracker`.
        folder: the run's, as in `out`; its name is what the run is called there, and TensorBoard's files go into
            `tensorboard` in it. A run without a folder takes any name.

    Example:
        >>> class Printed:
        ...     def numbers(self, round, values):
        ...         print(round, values["clients"])
        ...     def end(self, finished):
        ...         print("finished" if finished else "stopped")
        >>> with Tracking(lambda folder, settings: Printed(), "first") as track:
        ...     _ = askew.run(askew.Recipe(rounds=1), on_round=track)
        1 10.0
        finished
    """

    @checked
    def __init__(self, to: str | StartTracker, folder: str | Path) -> None:
        self._to = to if isinstance(to, str) else "a tracker of your own"
        self._start = _start_of(to) if isinstance(to, str) else to
        self._folder = Path(folder)
        self._tracker: Tracker | None = None
        self._recipe: Recipe | None = None
        self._failed = False

    def __call__(self, record: Mapping[str, Any], recipe: Recipe) -> None:
        """One round of the run."""
        self._try(lambda: self._follow(record, recipe))

    def _follow(self, record: Mapping[str, Any], recipe: Recipe) -> None:
        if self._tracker is None:
            self._recipe, self._tracker = recipe, self._start(self._folder, settings_of(recipe))
        if recipe != self._recipe:
            raise AskewError("rounds of a second run came; give each run a Tracking of its own")
        self._tracker.numbers(record["round"], numbers_of(record))

    def end(self, finished: bool = True) -> None:
        """No more rounds come."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            self._try(lambda: tracker.end(finished))

    def _try(self, act: Callable[[], None]) -> None:
        """What goes wrong with a tracker is told once, and no more is sent to it."""
        if self._failed:
            return
        try:
            act()
        except Exception as error:  # of a service, a disk, a library: whatever it is, the run is none the worse
            self._failed = True
            warnings.warn(f"tracking failed and is left off, the run goes on: {_why(self._to, error)}", stacklevel=2)

    def __enter__(self) -> Tracking:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.end(finished=error is None)


def _start_of(name: str) -> StartTracker:
    """The function that starts one of askew's trackers; refused where its package is not here."""
    if name not in TRACKERS:
        raise AskewError(f"unknown tracker {shown(name)}; {suggest(name, TRACKERS)}")
    if find_spec(TRACKERS[name]) is None:
        raise AskewError(f"tracking with {name} needs the package {TRACKERS[name]}, which is not installed: "
                         f"pip install 'askew[{name}]'")
    start: StartTracker = importlib.import_module(f"askew.tracking.{name}").start
    return start


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The fields of a recipe as plain values."""
    return tomllib.loads(recipe.to_toml())


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round, those of mappings in it by their paths; what no curve can show is left out.

    Example:
        >>> numbers_of({"round": 3, "loss": 0.5, "dropped": {"late": 2}, "choice": [0, 1], "q": float("nan")})
        {'loss': 0.5, 'dropped/late': 2.0}
    """
    def walk(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, float]]:
        for key, value in values.items():
            if isinstance(value, Mapping):
                yield from walk(value, f"{before}{key}/")
            elif isinstance(value, int | float) and math.isfinite(value):
                yield f"{before}{key}", float(value)

    return {name: value for name, value in walk(record, "") if name != "round"}


@checked
def send(path: str | Path, to: str) -> int:
    """Send what a run folder holds, finished or not.

    Args:
        path: the run folder.
        to: one of `TRACKERS`.

    Returns:
        how many rounds were sent.
    """
    folder, start = RunFolder.open(Path(path)), _start_of(to)
    recipe, records = folder.recipe, folder.records()
    try:
        tracker = start(folder.path, settings_of(recipe))
        for record in records:
            tracker.numbers(record["round"], numbers_of(record))
        tracker.end(folder.is_finished)
    except Exception as error:
        raise AskewError(f"{str(path)!r} could not be sent: {_why(to, error)}") from error
    return len(records)


def _why(to: str, error: Exception) -> str:
    return f"{to}: {type(error).__name__}: {first_line(error)}"
