"""`askew sweep` and `askew bench` as a user calls them."""

import json
import sys

import pytest

import askew
from askew.cli import app


def call(monkeypatch, capsys, *arguments):
    """Exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["askew", *arguments])
    code = 0
    try:
        app.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_a_sweep_ranks_what_single_runs_give(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "sweep", "--grid", "sgd.lr=0.01,0.1", "--grid", "seed=0,1", "--set",
                        "rounds=2", "--json")
    rows = json.loads(out)["configurations"]
    assert code == 0
    assert len(rows) == 4
    assert [row["best_accuracy"] for row in rows] == sorted((row["best_accuracy"] for row in rows), reverse=True)
    for row in rows:
        recipe = askew.Recipe(rounds=2, seed=row["settings"]["seed"]).with_setting("sgd.lr", row["settings"]["sgd.lr"])
        assert askew.run(recipe).accuracy == pytest.approx(row["accuracy"], abs=0.006)


def test_a_sweep_may_be_over_populations_and_shows_what_diverged(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "sweep", "--grid",
                        "population=iid(clients=4),shards(clients=4, shards_per_client=1)", "--grid", "sgd.lr=0.1,1e30",
                        "--set", "rounds=1")
    lines = out.splitlines()
    assert code == 0
    assert "shards(clients=4" in out
    assert "diverged" not in lines[1]
    assert "lower the" in out


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "sweep needs at least one --grid"),
    (["--grid", "sgd.lr"], "--grid takes KEY=A,B"),
    (["--grid", "sdg.lr=0.1"], "did you mean 'sgd'"),
    (["--grid", "round=1,2"], "did you mean 'rounds'"),
    (["--grid", "seed=0", "--grid", "seed=1"], "--grid: 'seed' has two axes; write all values in one: --grid seed=A,B"),
    (["--grid", "seed=0,0"], "--grid: seed has the value 0 twice"),
    (["--grid", "sgd.lr=0.1,0.10"], "--grid: sgd.lr has the value 0.1 twice"),
    (["--grid", "sgd.lr=0.1,fast"], "sgd: lr must be float or a schedule, not 'fast'"),
])
def test_bad_grids_get_one_line(arguments, message, monkeypatch, capsys):
    code, out, err = call(monkeypatch, capsys, "sweep", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_the_bench_shows_every_engine_and_what_auto_takes(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "bench", "--set", "rounds=100000", "--repeats", "1", "--json")
    shown = json.loads(out)
    assert code == 0
    assert [row["engine"] for row in shown["rows"]] == ["sequential", "vectorised", "parallel", "centralised"]
    assert all(row["ms"] > 0 for row in shown["rows"])
    assert shown["auto"] in ("sequential", "vectorised", "parallel")
    assert {"versions", "device", "cpus"} <= shown["environment"].keys()
    code, out, _ = call(monkeypatch, capsys, "bench", "--repeats", "1")
    assert code == 0
    assert "--engine auto takes" in out


def test_an_unknown_command_gets_the_nearest_name(monkeypatch, capsys):
    code, _, err = call(monkeypatch, capsys, "swep")
    assert code == 2
    assert err == "askew: unknown command 'swep'; did you mean 'sweep'?\n"
