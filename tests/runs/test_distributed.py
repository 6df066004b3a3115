"""Several processes give what one gives: every method, memory, guards, probes, folders; and nobody is left waiting."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Forked
from safetensors.torch import load_file
from several import worker
from several.cases import SMALL, cases
from several.worker import ROUNDS, stop_at

import askew
from askew.engine.peers import DISTRIBUTED
from askew.runs.compare import compare
from askew.runs.sweep import sweep

# Loopback only; one thread each, as torchrun sets it by itself.
ENVIRONMENT = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
SCAFFOLD = askew.methods.scaffold(SMALL.replace(rounds=ROUNDS))


ERRORS = {  # what -> what the first process says of it, and the second
    "a client": ("PeerError: rank 1: client 3 has failed", "AskewError: client 3 has failed"),
    "diverged": ("DivergedError: round 1", "DivergedError: round 1"),
    "other seeds": ("the recipe of process 1 is not that of process 0", "the recipe of process 1 is not that of"),
    "too many": ("2 processes for 1 clients", "2 processes for 1 clients"),
    "a folder": ("already holds a run", "PeerError: rank 0: .* already holds a run"),
    "a probe": ("no `merge`", "no `merge`"),
    "after all that": ("no error", "no error"),
}


def two_forked(folder: Path, *arguments: str, **given: Any) -> list[Forked]:
    """Two processes of one run with what torchrun tells them, without the seconds in which three of them load torch."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": "lo"}
    return [Forked(folder, *arguments, RANK=str(rank), LOCAL_RANK=str(rank), **told, **given) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_two_processes(tmp_path: Path, one_thread: None) -> None:
    """All cases in one start, and in one test: to start processes takes seconds."""
    askew.run(SCAFFOLD, out=tmp_path / "begun by one", on_round=stop_at(3), checkpoint_every=2)
    for process in two_forked(tmp_path, work=partial(worker.main, tmp_path)):
        _, errors = process.communicate(timeout=400)  # a busy machine takes ten times as long
        assert process.returncode == 0, errors[-3000:]
    odd = {}
    for name, recipe in cases().items():
        try:
            check_alike(tmp_path, name, recipe)
        except AssertionError as error:
            odd[name] = str(error)
    assert not odd, "\n\n".join(f"{name}: {text}" for name, text in odd.items())
    check_resumed(tmp_path)
    for what, patterns in ERRORS.items():
        for rank, pattern in enumerate(patterns):
            said = json.loads((tmp_path / f"errors-{rank}.json").read_text())[what]
            assert re.search(pattern, said), f"{what}, rank {rank}: {said}"


def check_alike(folder: Path, name: str, recipe: askew.Recipe) -> None:
    """Sums are taken in another order: equal to some multiples of float32's last bit, not to the last bit."""
    alone = askew.run(recipe)
    records, weights = json.loads((folder / f"{name}.json").read_text()), load_file(folder / f"{name}.safetensors")
    assert len(records) == len(alone.records)
    for here, there in zip(alone.records, records, strict=True):
        assert_alike(json.loads(json.dumps(here)), there)
    assert weights.keys() == alone.model.keys()
    for key, v in alone.model.items():
        torch.testing.assert_close(weights[key], v, rtol=1e-3, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


def check_resumed(folder: Path) -> None:
    """Two processes and two, two and one, one and two: client memory of all processes is in the checkpoint."""
    askew.resume(folder / "broken off, for one")
    whole = askew.run(SCAFFOLD)
    for name in ("broken off", "broken off, for one", "begun by one"):
        assert json.loads((folder / name / "summary.json").read_text())["rounds"] == ROUNDS
        weights = load_file(folder / name / "model.safetensors")
        for key, v in whole.model.items():
            torch.testing.assert_close(weights[key], v, rtol=1e-3, atol=1e-5)
    two, one = (json.loads((folder / name / "environment.json").read_text()) for name in ("broken off", "begun by one"))
    assert two["processes"] == 2
    assert two["engine"] == one["engine"]  # so that either can go on with what the other began


def assert_alike(here: object, there: object) -> None:
    """Numbers near each other, all else the same; an accuracy may differ by two of 360 examples."""
    if isinstance(here, dict):
        assert isinstance(there, dict)
        assert here.keys() == there.keys()
        for key in here:
            assert_alike(here[key], there[key])
    elif isinstance(here, list):
        assert isinstance(there, list)
        assert len(here) == len(there)
        for pair in zip(here, there, strict=True):
            assert_alike(*pair)
    elif isinstance(here, float):
        assert there == pytest.approx(here, rel=1e-3, abs=6e-3)
    else:
        assert here == there


def test_without_torchrun_one_line_says_how_to_start(refused) -> None:
    with refused("RANK is not set.*torchrun --standalone --nproc-per-node 2"):
        askew.run(SMALL, engine=DISTRIBUTED)


@pytest.mark.parametrize(("name", "value", "pattern"), [
    ("RANK", "x", "RANK='x' is no number"), ("MASTER_ADDR", "", "MASTER_ADDR is not set"),
    ("ASKEW_WAIT_S", "soon", "ASKEW_WAIT_S must be a number of seconds above 0, not 'soon'"),
    ("ASKEW_WAIT_S", "-1", "above 0, not '-1'"),
])
def test_variables_that_cannot_be(monkeypatch, refused, name: str, value: str, pattern: str) -> None:
    for key, given in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(key, given)
    monkeypatch.setenv(name, value)
    with refused(pattern):
        askew.run(SMALL, engine=DISTRIBUTED)


def test_many_runs_are_refused(refused) -> None:
    for call in (lambda: sweep([SMALL], engine=DISTRIBUTED), lambda: compare({"a": SMALL}, [0], engine=DISTRIBUTED)):
        with refused("one run in several processes"):
            call()


LONG_RUN = ["run", "--engine", "distributed", "--method", "scaffold", "--set", "rounds=1000000", "--checkpoint-every",
            "2", "--quiet", "--out"]


def has_come_so_far(folder: Path, processes: list[Any], rounds: int = 4) -> bool:
    """Wait until a run, which would last for hours, is under way."""
    until, metrics = time.monotonic() + 60, folder / "metrics.jsonl"
    while time.monotonic() < until and all(process.poll() is None for process in processes):
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= rounds:
            return True
        time.sleep(0.1)
    return False


def can_be_gone_on_with(folder: Path, copy: Path, stopped: str) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["stopped"] == stopped
    shutil.copytree(folder, copy)
    gone_on = askew.resume(copy, on_round=stop_at(summary["rounds"] + 1))
    assert gone_on.records[-1]["round"] == summary["rounds"] + 1


def second_of(process: subprocess.Popen[str]) -> int:
    """The process of rank 1."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes():
            return int(child)
    raise AssertionError("there is no second process")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_one_that_is_killed_stops_all(tmp_path: Path) -> None:
    """Started by torchrun, which takes away the others, too, as soon as it sees that one is gone."""
    process = subprocess.Popen([*TORCHRUN, "askew", *LONG_RUN, str(tmp_path / "run")], env=ENVIRONMENT, text=True,
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        assert has_come_so_far(tmp_path / "run", [process])
        os.kill(second_of(process), signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(process.communicate()[1][-3000:])
    assert "another process of the run is gone" in errors
    can_be_gone_on_with(tmp_path / "run", tmp_path / "copy", "failed")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_sigterm_to_one_of_the_processes_stops_all_with_a_checkpoint_of_all(tmp_path: Path, one_thread: None) -> None:
    processes = two_forked(tmp_path, *LONG_RUN, "run")
    try:
        assert has_come_so_far(tmp_path / "run", processes)
        processes[1].send_signal(signal.SIGTERM)
    finally:
        ended = [process.communicate(timeout=60) for process in processes]  # which kills what does not end
    assert [process.returncode for process in processes] == [130, 130]
    assert "interrupted after" in ended[0][1]
    can_be_gone_on_with(tmp_path / "run", tmp_path / "copy", "interrupted")
