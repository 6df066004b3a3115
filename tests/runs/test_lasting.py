"""What pieces keep between rounds: it is saved and read again, or refused before the first round, by name."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import askew
from askew.core import registry
from askew.core.pool import Changes, Pool
from askew.core.probe import Probe
from askew.core.server_piece import ServerPiece
from askew.core.tensors import ModelState
from askew.engine.peers import Peers, _written
from askew.runs import driver, running
from askew.runs.running import Running
from askew.runs.sweep import sweep

BASE = askew.Recipe(population="iid(clients=4)", model="mlp(hidden=[4])", batch_size=0, rounds=4)
NEXT: dict[str, Callable[[int, Any], Any]] = {}  # (round, state) -> the piece's next state


@pytest.fixture(autouse=True)
def pieces() -> Iterator[None]:
    """Pieces that keep what NEXT says."""
    def keep(number: int, state: Any) -> Any:
        return NEXT["state"](number, state)

    @registry.piece("server")
    def keeping_server() -> ServerPiece:
        return ServerPiece(lambda u, state, ctx: (u, keep(ctx.round + 1, state)), init=lambda params: keep(0, None))

    @registry.piece("probe")
    def keeping_probe() -> Probe:
        return Probe(lambda ctx, seen, state, gathered: ({}, keep(seen.number, state)), init=lambda ctx: keep(0, None))

    @registry.piece("pool")
    def keeping_pool() -> Pool:
        return Pool(init=lambda clients: {"clients": clients, "kept": keep(0, None)},
                    trainers=lambda state, clients: {0: clients},
                    scores=lambda state, model, clients: [1.0] * len(clients),
                    after_round=lambda state, accuracies, round, key: (state, Changes()),
                    choice=lambda state: [0] * state["clients"], metrics=lambda state, groups: {},
                    keeps=lambda state: ([0], np.ones((state["clients"], 1), bool)))

    @registry.piece("probe")
    def moved() -> Probe:
        """How far the model has gone since the round before last: it keeps what it was handed."""
        def read(ctx: Any, seen: Any, state: Any, gathered: Any) -> Any:
            before = seen.before if state is None else state
            steps = {name: seen.after.params[name] - v for name, v in before.params.items()}
            return {"moved": sum(float(v.norm()) for v in steps.values())}, seen.before
        return Probe(read)

    yield
    for kind, name in (("server", "keeping_server"), ("probe", "keeping_probe"), ("pool", "keeping_pool"),
                       ("probe", "moved")):
        registry._PIECES[kind].pop(name)


FIELDS = {"server": {"server": ["mean()", "keeping_server()"]}, "probe": {"probes": ["keeping_probe()"]},
          "pool": {"pool": "keeping_pool()"}}


def keeping(kind: str) -> askew.Recipe:
    return BASE.replace(**FIELDS[kind])


def stop(record: dict[str, Any], recipe: askew.Recipe) -> None:
    if record["round"] == 2:
        raise KeyboardInterrupt


class Local:
    pass


@pytest.mark.parametrize("state", [np.zeros(2), np.float64(1.0), deque([1]), Local(), {"a": [range(2)]}],
                         ids=lambda state: type(state).__name__)
@pytest.mark.parametrize("kind", FIELDS)
def test_what_no_checkpoint_can_hold_is_refused_before_anything_is_written(kind: str, state: Any,
                                                                          tmp_path: Path) -> None:
    NEXT["state"] = lambda number, before: state
    with pytest.raises(askew.AskewError, match=rf"^{kind} keeping_{kind} keeps a [\w.]+ between rounds, which no"):
        askew.run(keeping(kind), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_folder_it_may_be_anything() -> None:
    NEXT["state"] = lambda number, before: deque([number])
    assert askew.run(keeping("probe")).finished


def test_a_model_that_a_probe_is_handed_may_be_kept(tmp_path: Path) -> None:
    recipe = BASE.replace(probes=["moved()"])
    assert askew.run(recipe, out=tmp_path / "run", on_round=stop).interrupted
    assert askew.resume(tmp_path / "run").records == askew.run(recipe).records


def test_so_it_may_between_processes() -> None:
    again = Peers(0, 2)._read(_written({"model": ModelState({"w": torch.ones(2)})}))
    assert again["model"].params["w"].tolist() == [1.0, 1.0]


def test_a_state_that_becomes_another_is_told_of_and_the_run_ends(tmp_path: Path) -> None:
    NEXT["state"] = lambda number, before: np.zeros(1) if number > 2 else None
    with pytest.warns(UserWarning, match="run is no longer saved, .*keeping_probe keeps a numpy.ndarray") as told:
        result = askew.run(keeping("probe").replace(rounds=6), out=tmp_path / "run", checkpoint_every=1)
    assert result.finished
    assert len([each for each in told if "no longer saved" in str(each.message)]) == 1
    assert askew.load(tmp_path / "run")


def test_stopped_then_it_goes_on_from_the_checkpoint_before(tmp_path: Path) -> None:
    def stop_later(record: dict[str, Any], recipe: askew.Recipe) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    NEXT["state"] = lambda number, before: np.zeros(1) if number == 3 else number
    with pytest.warns(UserWarning, match="no longer saved"):
        stopped = askew.run(keeping("probe"), out=tmp_path / "run", checkpoint_every=1, on_round=stop_later)
    assert (stopped.interrupted, len(stopped.records)) == (True, 3)
    assert (tmp_path / "run" / "checkpoint-2.json").exists()
    assert not (tmp_path / "run" / "checkpoint-3.json").exists()
    assert askew.resume(tmp_path / "run").records == askew.run(keeping("probe")).records


def test_a_checkpoint_of_an_earlier_version_is_not_called_damaged(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    NEXT["state"] = lambda number, before: deque([number])
    for module in (driver, running):
        monkeypatch.setattr(module, "check_lasting", lambda task, state: None)
    assert askew.run(keeping("probe"), out=tmp_path / "run", on_round=stop).interrupted
    with pytest.raises(askew.AskewError, match=r"2.pt' cannot be read: it holds a collections.deque") as error:
        askew.resume(tmp_path / "run")
    assert "damaged" not in str(error.value)
    assert "overwrite" not in str(error.value)


def test_others_of_a_sweep_go_on(tmp_path: Path) -> None:
    NEXT["state"] = lambda number, before: deque()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        good, bad = sweep([BASE, keeping("server")], folders=[tmp_path / "good", tmp_path / "bad"])
    assert good.finished
    assert "keeping_server keeps a collections.deque" in str(bad.failed)
    assert not (tmp_path / "bad").exists()


def test_what_keeps_a_stopped_run_from_being_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: Running, *args: Any) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(Running, "end", end)
    with pytest.warns(UserWarning, match="run could not be kept as it was when it was stopped: no room"), \
            pytest.raises(KeyboardInterrupt):
        askew.run(BASE, out=tmp_path / "run", on_round=stop)
