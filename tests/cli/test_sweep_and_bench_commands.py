"""`askew sweep` and `askew bench` as a user calls them."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
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


def test_a_sweep_ranks_means_over_seeds_of_what_single_runs_give(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "sweep", "--grid", "sgd.lr=0.01,0.1", "--grid", "seed=0,1", "--set",
                        "rounds=2", "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["ranked_by"] == ("ranked by accuracy in the last round: the whole test set (360 examples); mean over "
                                  "2 seeds \u00b1 their standard deviation")
    assert len(shown["configurations"]) == 4
    alone = {}
    for row in shown["configurations"]:
        recipe = askew.Recipe(rounds=2, seed=row["settings"]["seed"]).with_setting("sgd.lr", row["settings"]["sgd.lr"])
        assert askew.run(recipe).accuracy == pytest.approx(row["accuracy"], abs=0.006)
        alone.setdefault(row["settings"]["sgd.lr"], []).append(row["accuracy"])
    ranked = sorted(alone, key=lambda rate: -np.mean(alone[rate]))
    assert [row["settings"] for row in shown["settings"]] == [{"sgd.lr": rate} for rate in ranked]
    for row in shown["settings"]:
        scores = alone[row["settings"]["sgd.lr"]]
        assert (row["accuracy_mean"], row["accuracy_std"]) == pytest.approx((np.mean(scores), np.std(scores, ddof=1)))


def test_a_random_search_draws_the_same_settings_again(monkeypatch, capsys, tmp_path):
    arguments = ("sweep", "--random", "3", "--grid", "sgd.lr=log(0.001,1)", "--grid", "epochs=whole(1,2)", "--grid",
                 "seed=0,1", "--set", "rounds=1", "--json")
    first = json.loads(call(monkeypatch, capsys, *arguments, "--out", "s", "--plot", "s.png")[1])
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"
    assert (len(first["settings"]), len(first["configurations"])) == (3, 6)
    assert all(0.001 <= row["settings"]["sgd.lr"] <= 1 for row in first["settings"])
    again = json.loads(call(monkeypatch, capsys, *arguments, "--out", "s", "--resume")[1])
    assert again == first


def test_a_sweep_by_held_out_data(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "sweep", "--grid", "sgd.lr=0.01,0.1", "--set", "rounds=3", "--set",
                        "population=iid(clients=4) + validation(0.2)", "--rank", "held-out", "--json")
    shown = json.loads(out)
    assert code == 0
    assert "held-out training examples" in shown["ranked_by"]
    held_out = {row["settings"]["sgd.lr"]: row["held_out_accuracy"] for row in shown["configurations"]}
    assert [row["held_out_accuracy_mean"] for row in shown["settings"]] == sorted(held_out.values(), reverse=True)
    assert {row["rounds"] for row in shown["configurations"]} == {3}  # to look is not to stop


def test_a_sweep_may_be_over_populations_and_shows_what_diverged(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "sweep", "--grid",
                        "population=iid(clients=4),shards(clients=4, shards_per_client=1)", "--grid", "sgd.lr=0.1,1e30",
                        "--set", "rounds=1")
    lines = out.splitlines()
    assert code == 0
    assert "shards(clients=4" in out
    assert "diverged" not in lines[1]
    assert "lower the" in out


@pytest.mark.parametrize("form", [[], ["--json"], ["--plot", "p.png"]])
def test_a_sweep_of_which_nothing_is_left_says_so_and_fails_as_a_run_does(form, monkeypatch, capsys):
    code, out, err = call(monkeypatch, capsys, "sweep", "--grid", "sgd.lr=1e20,1e25", "--set", "rounds=2", *form)
    assert code == 3
    assert "none of 2 configurations reached its end: round 1: the update of clients" in " ".join(err.split())
    assert "1e+20" in out


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "sweep needs at least one --grid"),
    (["--grid", "sgd.lr"], "--grid takes KEY=A,B"),
    (["--grid", "sdg.lr=0.1"], "did you mean 'sgd'"),
    (["--grid", "round=1,2"], "did you mean 'rounds'"),
    (["--grid", "seed=0", "--grid", "seed=1"], "--grid: 'seed' has two axes; write all values in one: --grid seed=A,B"),
    (["--grid", "seed=0,0"], "--grid: seed has the value 0 twice"),
    (["--grid", "sgd.lr=0.1,0.10"], "--grid: sgd.lr has the value 0.1 twice"),
    (["--grid", "sgd.lr=log(0.1,1)"], "sgd.lr=log(0.1,1) is a range to draw from; add --random N"),
    (["--grid", "sgd.lr=log(0,1)", "--random", "2"], "a logarithm has no numbers from 0"),
    (["--grid", "sgd.lr=log(1,0.1)", "--random", "2"], "up to a larger one"),
    (["--grid", "sgd.lr=uniform(a,b)", "--random", "2"], "is no range of numbers"),
    (["--grid", "epochs=whole(1,2.5)", "--random", "2"], "whole takes whole numbers"),
    (["--grid", "seed=whole(1,9)", "--random", "2"], "name them: seed=0,1,2"),
    (["--grid", "sgd.lr=0.1,1", "--random", "0"], "number must be at least 1"),
    (["--grid", "sgd.lr=0.1,1", "--rank", "best"], "--rank is last (the test set in the last round) or held-out"),
    (["--grid", "sgd.lr=0.1,1", "--rank", "held-out"], "no training examples are held out"),
    (["--grid", "population=iid(2),iid(3)", "--plot", "x.png"], "--plot draws scores over numbers"),
    (["--grid", "sgd.lr=0.1,1", "--plot", "x.txt"], "must end in .png"),
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


@pytest.mark.parametrize("command", [["sweep", "--grid", "seed=0,1", "--rank", "held-out"],
                                     ["compare", "--methods", "fedavg,fedavgm", "--seeds", "1"]])
def test_a_folder_in_which_nothing_could_be_trained_is_gone_on_with(command, monkeypatch, capsys):
    arguments = [*command, "--set", "rounds=1", "--out", "many", "--set"]
    with warnings.catch_warnings(action="ignore"):  # each configuration that fails is named
        _, _, err = call(monkeypatch, capsys, *arguments, "population=iid(clients=9999)")
    assert "9999" in err
    held_out = "population=iid(clients=3) + validation(0.1)"
    if (Path("many")).exists():
        code, _, err = call(monkeypatch, capsys, *arguments, held_out)
        assert (code, "or add --resume to continue the" in err) == (2, True)
        arguments.insert(1, "--resume")
    assert call(monkeypatch, capsys, *arguments, held_out)[0] == 0


def test_ranking_by_what_is_not_held_out_names_the_option(monkeypatch, capsys):
    _, _, err = call(monkeypatch, capsys, "sweep", "--grid", "sgd.lr=0.1,1", "--rank", "held-out")
    assert "(or --rank held-out): no training examples are held out" in err


def test_a_sweep_that_cannot_begin_leaves_its_folder_free(monkeypatch, capsys, tmp_path):
    """The same command, put right, is not told that the folder is in use."""
    arguments = ("sweep", "--grid", "seed=0,1", "--set", "rounds=1", "--quiet", "--out", "s")
    assert call(monkeypatch, capsys, *arguments, "--set", "population=natural()")[0] == 2
    assert not (tmp_path / "s").exists()
    (tmp_path / "s").mkdir()
    assert call(monkeypatch, capsys, *arguments, "--set", "data=npz('nothing')")[0] == 2
    assert list((tmp_path / "s").iterdir()) == []
    assert call(monkeypatch, capsys, *arguments)[0] == 0
    assert call(monkeypatch, capsys, *arguments, "--set", "rounds=2", "--resume")[0] == 2
    assert (tmp_path / "s" / "000-seed=0" / "summary.json").is_file()
