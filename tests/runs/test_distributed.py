"""Several processes give what one gives: every method, memory, guards, probes, folders; and nobody is left waiting."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from several.cases import SMALL, cases
from several.worker import ROUNDS, stop_at

import askew
from askew.engine.peers import DISTRIBUTED
from askew.runs.compare import compare
from askew.runs.sweep import sweep

SUPPORT = Path(__file__).parents[1] / "support"
# Loopback only; one thread each, as torchrun sets it by itself.
ENVIRONMENT = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
               "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
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


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """All cases in one start, and in one test: to start processes takes seconds."""
    askew.run(SCAFFOLD, out=tmp_path / "begun by one", on_round=stop_at(3), checkpoint_every=2)
    done = subprocess.run([*TORCHRUN, "several.worker", str(tmp_path)], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=400, check=False)  # a busy machine takes ten times as long
    assert done.returncode == 0, done.stderr[-3000:]
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


def under_way(folder: Path, rounds: int, *options: str, **environment: str) -> subprocess.Popen[str]:
    """A run of two processes that has come so far; it would last for hours."""
    command = [*TORCHRUN, "askew", "run", "--engine", "distributed", "--method", "scaffold", "--set", "rounds=1000000",
               "--out", str(folder), "--checkpoint-every", "2", "--quiet", *options]
    process = subprocess.Popen(command, env={**ENVIRONMENT, **environment}, stderr=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        metrics = folder / "metrics.jsonl"
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= rounds:
            return process
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError(process.communicate()[1][-3000:])


def second_of(process: subprocess.Popen[str]) -> int:
    """The process of rank 1."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes():
            return int(child)
    raise AssertionError("there is no second process")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(("number", "says"), [
    (signal.SIGTERM, "interrupted after"), (signal.SIGKILL, "another process of the run is gone"),
])
def test_signals(tmp_path: Path, number: signal.Signals, says: str) -> None:
    """SIGTERM to one of the processes stops all, with a checkpoint of all; one that is killed stops all, too."""
    process = under_way(tmp_path / "run", rounds=4)
    os.kill(second_of(process), number)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert says in errors
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped"] == ("interrupted" if number == signal.SIGTERM else "failed")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    gone_on = askew.resume(tmp_path / "copy", on_round=stop_at(summary["rounds"] + 1))
    assert gone_on.records[-1]["round"] == summary["rounds"] + 1
