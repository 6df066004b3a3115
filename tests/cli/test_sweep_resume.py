"""`askew sweep --out` is kept, and an interrupted one goes on with `--resume`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SWEEP = ["sweep", "--grid", "sgd.lr=0.01,0.1", "--grid", "seed=0,1", "--out", "here", "--json", "--quiet"]


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", "from askew.cli.app import main; main()", *arguments], cwd=folder,
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder)})


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """What the sweep says when nothing disturbs it."""
    (tmp_path / "whole").mkdir()
    code, out, _ = finish(start(tmp_path / "whole", *SWEEP, "--set", "rounds=60"))
    assert code == 0
    assert (tmp_path / "whole" / "here" / "report.html").is_file()
    return out


def test_ctrl_c_then_resume(whole: str, tmp_path: Path) -> None:
    process = start(tmp_path, *SWEEP, "--set", "rounds=60")
    metrics = tmp_path / "here" / "003-sgd.lr=0.1-seed=1" / "metrics.jsonl"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert err == "interrupted: this is how far it came; go on with the same options and --resume --out here\n"
    stopped = json.loads(out)
    assert stopped["interrupted"]
    assert all(0 < row["rounds"] < 60 for row in stopped["configurations"])
    code, out, err = finish(start(tmp_path, *SWEEP, "--set", "rounds=60"))
    assert (code, out) == (2, "")
    assert "'here' is not empty" in err
    code, out, _ = finish(start(tmp_path, *SWEEP, "--set", "rounds=60", "--resume"))
    assert code == 0
    assert json.loads(out) == json.loads(whole)
    assert not list((tmp_path / "here").rglob("checkpoint*"))


def test_resume_needs_the_folder_and_the_same_settings(whole: str, tmp_path: Path) -> None:
    code, _, err = finish(start(tmp_path, "sweep", "--grid", "seed=0,1", "--resume"))
    assert code == 2
    assert "--resume needs --out with the folder of an interrupted sweep, got none" in err
    code, _, err = finish(start(tmp_path / "whole", *SWEEP, "--set", "rounds=61", "--resume"))
    assert code == 2
    assert "holds a run of another recipe" in err
