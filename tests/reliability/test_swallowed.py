"""A signal stops a run also where the exception that it raised was swallowed, or came out as another one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from victims import BASE, contents

import askew
from askew.core import interrupt

pytestmark = pytest.mark.usefixtures("one_thread")


def strike(number: int) -> None:
    os.kill(os.getpid(), number)
    for _ in range(100):  # Python handles signals between its own steps
        time.sleep(0.0001)


def caught(number: int) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        strike(number)


class Destructor:
    def __init__(self, number: int) -> None:
        self._number = number

    def __del__(self) -> None:
        strike(self._number)  # what is raised here goes no further


def destroyed(number: int) -> None:
    Destructor(number)


def disguised(number: int) -> None:
    try:
        strike(number)
    except KeyboardInterrupt:
        raise RuntimeError("something else") from None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", interrupt.SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("way", [caught, destroyed])
def test_a_signal_that_was_swallowed_stops_the_run_all_the_same(way: Callable[[int], None], number: int,
                                                                tmp_path: Path) -> None:
    whole = askew.run(BASE, out=tmp_path / "whole")

    def act(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] == 3:
            way(number)

    result = askew.run(BASE, out=tmp_path / "run", on_round=act)
    assert result.interrupted
    assert len(result.records) == 3
    assert askew.resume(tmp_path / "run").records == whole.records
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("number", interrupt.SIGNALS, ids=lambda number: number.name)
def test_one_that_comes_out_as_another_error_is_no_failure(number: int, tmp_path: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    whole = askew.run(BASE)
    real = askew.rounds.simulation.Simulation.evaluate

    def evaluate(self, row=None):
        if self.round == 3:
            disguised(number)
        return real(self, row)

    with monkeypatch.context() as patch:
        patch.setattr("askew.rounds.simulation.Simulation.evaluate", evaluate)
        result = askew.run(BASE, out=tmp_path / "run")
    assert result.interrupted
    assert result.failed is None
    assert askew.resume(tmp_path / "run").records == whole.records


def test_what_stopped_one_run_does_not_stop_the_next(tmp_path: Path) -> None:
    """Neither in this thread nor in another."""
    def act(record: askew.Record, recipe: askew.Recipe) -> None:
        caught(signal.SIGTERM)

    assert askew.run(BASE, on_round=act).interrupted
    assert askew.run(BASE).finished
    results: list[askew.Result] = []
    thread = threading.Thread(target=lambda: results.append(askew.run(BASE)))
    thread.start()
    thread.join()
    assert results[0].finished
