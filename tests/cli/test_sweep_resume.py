"""`askew sweep --out` is kept, and an interrupted one goes on with `--resume`."""

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked import Forked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

SWEEP = ["sweep", "--grid", "sgd.lr=0.01,0.1", "--grid", "seed=0,1", "--set", "batch_size=50", "--out", "here",
         "--json", "--quiet"]


def start(folder: Path, *arguments: str) -> Forked:
    return Forked(folder, *arguments, XDG_CACHE_HOME=str(folder))


def finish(process: Forked) -> tuple[int | None, str, str]:
    out, err = process.communicate()
    return process.returncode, out, err


@dataclass(frozen=True)
class Whole:
    """A sweep that nothing disturbed: where it is, and what it said."""

    folder: Path
    said: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    code, out, _ = finish(start(folder, *SWEEP, "--set", "rounds=70"))
    assert code == 0
    assert (folder / "here" / "report.html").is_file()
    return Whole(folder, out)


@pytest.mark.slow
def test_ctrl_c_then_resume(whole: Whole, tmp_path: Path) -> None:
    process = start(tmp_path, *SWEEP, "--set", "rounds=70")
    metrics = tmp_path / "here" / "003-sgd.lr=0.1-seed=1" / "metrics.jsonl"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert err == "interrupted: this is how far it came; continue with the same options and --resume --out here\n"
    stopped = json.loads(out)
    assert stopped["interrupted"]
    assert all(0 < row["rounds"] < 70 for row in stopped["configurations"])
    code, out, err = finish(start(tmp_path, *SWEEP, "--set", "rounds=70"))
    assert (code, out) == (2, "")
    assert "'here' is not empty" in err
    code, out, _ = finish(start(tmp_path, *SWEEP, "--set", "rounds=70", "--resume"))
    assert code == 0
    assert json.loads(out) == json.loads(whole.said)
    assert not list((tmp_path / "here").rglob("checkpoint*"))


def test_resume_needs_the_folder_and_the_same_settings(whole: Whole, tmp_path: Path) -> None:
    code, _, err = finish(start(tmp_path, "sweep", "--grid", "seed=0,1", "--resume"))
    assert code == 2
    assert "--resume needs --out with the folder of an interrupted sweep, got none" in err
    code, _, err = finish(start(whole.folder, *SWEEP, "--set", "rounds=71", "--resume"))
    assert code == 2
    assert "holds a run of another recipe" in err
