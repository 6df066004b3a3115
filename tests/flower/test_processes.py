"""Real processes on loopback: SuperLink and SuperNodes with TLS and node keys, killed, restarted, refused.

Each message starts a Python process with torch on its node, so these take their time; what can go wrong with a reply is
in test_faults.py, and the whole table of faults in benchmarks/deploy.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import askew
from askew.core.recipe import Recipe
from askew.flower.app_folder import write_app
from askew.flower.local_federation import CONNECTED, LocalFederation

pytestmark = pytest.mark.slow
LONG_S = 300.0  # of any wait: on a busy machine a process takes half a minute to start
CLIENTS = "dirichlet(clients=2, alpha=0.5)"
RECIPE = askew.methods.scaffold(Recipe(population=CLIENTS, rounds=4))


def processes_below(folder: Path) -> list[str]:
    """Command lines of processes that were started with something in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def test_askew_deploy_try_gives_the_simulations_curve_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "askew", "deploy", "try", "--rounds", "1", "--set", f"population={CLIENTS}",
               "--json"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=600,
                          env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["clients"] == 2
    assert len(found["rounds"]) == 1  # several rounds: the test below
    assert found["largest_difference"] <= 1e-6
    assert [path for path in tmp_path.iterdir() if "askew" in path.name] == []  # torch leaves a folder of its own
    assert processes_below(tmp_path) == []
    assert "round 1 of 1" in done.stderr


def test_a_federation_that_is_killed_piece_by_piece(tmp_path: Path) -> None:
    """A node with an unknown key and one that trusts somebody else are there all the time, and never take part."""
    app, out, deadline = tmp_path / "app", tmp_path / "run", 45.0
    write_app(app, RECIPE)
    theirs = [record["accuracy"] for record in askew.run(RECIPE.replace(rounds=2), engine="sequential").records]
    config = {"clients": 2, "data": "recipe", "out": str(out), "poll": 1.0}
    with LocalFederation(app) as federation:
        federation.start_link()
        for k in range(2):
            federation.add_node(f"node-{k}", {"part": k, "report-labels": True})
        federation.add_node("unknown-key", {"part": 0}, register=False)
        federation.add_node("wrong-authority", {"part": 0}, authority=app / "nodes" / "node-0" / "ca.crt")

        # The server killed after a round, a node restarted: resumed, the curve is that of an unbroken run.
        run = federation.run({**config, "deadline": LONG_S})
        federation.wait(run, out, LONG_S, rounds=1)
        federation.stop("node-0")
        federation.kill_link()
        assert len(askew_records(out)) < 2
        federation.start_link()
        federation.start_node("node-0")
        run = federation.run({**config, "deadline": deadline, "min-clients": 1, "resume": True})
        records = federation.wait(run, out, LONG_S, rounds=2)
        assert [record["accuracy"] for record in records] == pytest.approx(theirs, abs=1e-6)
        assert all(record["clients"] == 2 for record in records)

        # A node killed in mid-round: the round is done with the other. Its message of the third round is the second of
        # this run; its reply may have been under way already, then it is missed in the fourth.
        stop = time.monotonic() + LONG_S
        while federation.lines("node-1").count("Receiving: train") < 3:
            assert time.monotonic() < stop, federation.last_words(run)
            time.sleep(0.1)
        federation.kill("node-1")
        for rounds in (3, 4):
            began = time.monotonic()
            records = federation.wait(run, out, LONG_S, rounds=rounds)
            assert time.monotonic() - began < deadline + 30
            if "dropped_clients" in records[-1]:
                break
        assert records[-1]["dropped_clients"] in ({"late": [1]}, {"away": [1]})
        said = federation.log_of(run)
        assert "client node-1 (node" in said
        assert "has lost its memory" not in said

        for name, reason in (("unknown-key", "Exit Code: 305"), ("wrong-authority", "handshake error")):
            said = federation.lines(name)
            assert reason in said, said
            assert CONNECTED not in said, said
            assert federation.nodes[name].poll() not in (None, 0), said
    assert processes_below(tmp_path) == []


def askew_records(out: Path) -> list[str]:
    file = out / "metrics.jsonl"
    return file.read_text().splitlines() if file.exists() else []
