"""`askew run` and `askew resume`: results, and one clear line for everything that is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import Forked
from safetensors.torch import load_file

import askew
from askew.cli.app import main

ROUNDS = ("--set", "rounds=2")


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """`cli("run", ...)`: exit code, stdout and stderr of the real entry point, called in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return call


def test_the_result_for_people_and_for_programs(cli, tmp_path):
    code, out, err = cli("run", *ROUNDS, "--out", "one")
    assert code == 0
    assert "accuracy" in out
    assert "accuracy: the whole test set (360 examples)" in out
    assert "run folder: one" in out
    code, out, err = cli("run", *ROUNDS, "--out", "two", "--json", "--quiet")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert out.count("\n") == 1
    assert answer["rounds"] == 2
    assert answer["judged_on"] == "the whole test set (360 examples)"
    assert (answer["run"], answer["method"], answer["interrupted"]) == ("two", "fedavg", False)
    assert answer["accuracy"] == askew.run(askew.Recipe(rounds=2)).accuracy
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_path_of_the_folder_is_one_line_to_be_copied(cli):
    folder = "/".join(["a folder of a long name"] * 5)
    assert f"run folder: {folder}\n" in cli("run", *ROUNDS, "--out", folder)[1]


def test_without_out_it_makes_a_folder_under_runs(cli, tmp_path):
    assert cli("run", *ROUNDS, "--json")[0] == 0
    assert cli("run", *ROUNDS, "--json")[0] == 0
    made = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(made) == 2
    assert all("fedavg-digits" in name for name in made)


def test_methods_are_combined(cli, tmp_path):
    """By a plus, as compare's are, or by naming the option again: none is silently dropped."""
    for name, methods in (("plus", ["fedprox(mu=0.5)+fedavgm"]), ("twice", ["fedprox(mu=0.5)", "fedavgm"])):
        code, out, _ = cli("run", *(part for method in methods for part in ("--method", method)), *ROUNDS, "--out",
                           name, "--json")
        assert (code, json.loads(out)["method"]) == (0, "fedprox+fedavgm")
    assert (tmp_path / "plus" / "recipe.toml").read_text() == (tmp_path / "twice" / "recipe.toml").read_text()


def test_a_run_folder_whose_recipe_is_empty_is_not_the_default_run(cli, tmp_path):
    assert cli("run", *ROUNDS, "--out", "x")[0] == 0
    (tmp_path / "x" / "recipe.toml").write_text("")
    code, out, err = cli("resume", "x")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the recipe is empty" in err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried "
                                                               "to allocate 9 bytes\nmore"),
                                   torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")], ids=type)
def test_a_memory_that_is_full_gets_one_line(cli, error, monkeypatch):
    def full(*_, **__):
        raise error

    monkeypatch.setattr("askew.cli.run.train", full)
    code, _, err = cli("run", *ROUNDS)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("askew: the memory is full (")


def test_file_method_settings_and_seed(cli, tmp_path):
    (tmp_path / "r.toml").write_text('rounds = 9\npopulation = "iid(clients=3)"\n')
    code, out, _ = cli("run", "r.toml", "--method", "fedprox(mu=0.5)", *ROUNDS, "--set", "sgd.lr=0.2", "--seed", "5",
                       "--out", "x", "--json")
    assert code == 0
    recipe = askew.Recipe.from_toml((tmp_path / "x" / "recipe.toml").read_text())
    assert (recipe.name, recipe.rounds, recipe.seed) == ("fedprox", 2, 5)
    assert [str(spec) for spec in recipe.client] == ["add_proximal(mu=0.5)", "sgd(lr=0.2)"]
    assert json.loads(out)["seed"] == 5


def save_npz(path: Path, bad_input: bool = False) -> str:
    x, y = np.zeros((40, 3), np.float32), np.arange(40) % 4
    if bad_input:
        x[5, 1] = np.nan
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return f"data=npz(path='{path.name}')"


@pytest.mark.parametrize(("arguments", "parts"), [
    (["--set", "round=3"], ["unknown key 'round'", "did you mean 'rounds'"]),
    (["--method", "fedproxx"], ["unknown method 'fedproxx'", "did you mean 'fedprox'"]),
    (["--method", "fedprox(mu='big')"], ["mu must be float, not 'big'"]),
    (["--set", "rounds=many"], ["rounds must be int, not 'many'"]),
    (["--set", "rounds=0"], ["rounds must be at least 1, got 0"]),
    (["--set", "fraction=0"], ["fraction must be in (0, 1], got 0"]),
    (["--set", "fraction=1.5"], ["fraction must be in (0, 1], got 1.5"]),
    (["--set", "population=iid(clients=0)"], ["clients", "0"]),
    (["--set", "population=iid(clients=5000)"], ["5000", "1437"]),
    (["--set", "population=iid(clients=-3)"], ["-3"]),
    (["--set", "model=mlpp()"], ["unknown model 'mlpp'", "did you mean 'mlp'"]),
    (["--set", "model=mcmahan_cifar_cnn()", "--set", "preprocess=[\"tf_cifar()\"]"], ["tf_cifar", "24", "8 x 8"]),
    (["--set", "population=dirichlet_per_class(clients=200, alpha=0.001, min_examples=0)"],
     ["min_examples=0", "clients"]),
    (["--set", "sgd.rate=0.1"], ["client 'sgd' has no argument 'rate'"]),
    (["--set", "server=[\"mean()\", \"mean()\"]"], ["mean and mean both make the update"]),
    (["--set", "start=pretrained(path='nothing')"], ["no weights file 'nothing'"]),
    (["--set", "data=npz(path='nothing.npz')"], ["nothing.npz"]),
    (["--set", "rounds"], ["--set takes key=value, got 'rounds'"]),
    (["--engine", "warp"], ["unknown engine 'warp'"]),
    (["--device", "gpu"], ["device 'gpu' is not available"]),
    (["nothing.toml"], ["no recipe file 'nothing.toml'"]),
    (["bad.toml"], ["bad.toml is not valid TOML", "line 2"]),
    (["typed.toml"], ["epochs must be int, not '3'"]),
    (["method.toml"], ["method must be the name of a method"]),
    (["--out", "file"], ["'file' is a file; name a folder"]),
    (["--out", "file/below"], ["cannot be made", "is a file"]),
    (["--seed", "1", "--set", "seed=2"], ["'seed' is set twice; keep one of them"]),
    (["--out=~/runs"], ["--out: '~/runs': ~ is not taken for your home folder here; write '/"]),
    (["--out", "full"], ["is not empty and holds no run"]),
    (["--out", "full", "--overwrite"], ["is not empty and holds no run"]),
    (["--set", "NAN"], ["example 5 holds NaN or infinity"]),
    (["--set", "GOOD", "--set", "model=mcmahan_mnist_cnn()"], ["mcmahan_mnist_cnn"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_bad_input_is_one_line_on_stderr_exit_code_2_and_nothing_written(cli, tmp_path, arguments, parts):
    (tmp_path / "bad.toml").write_text("rounds = 3\nepochs = = 2\n")
    (tmp_path / "typed.toml").write_text('epochs = "3"\n')
    (tmp_path / "method.toml").write_text("method = 3\n")
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("mine")
    words = {"NAN": save_npz(tmp_path / "nan.npz", bad_input=True), "GOOD": save_npz(tmp_path / "good.npz")}
    before = sorted(path for path in tmp_path.rglob("*"))
    code, out, err = cli("run", *(words.get(word, word) for word in arguments))
    assert code == 2
    assert out == ""
    assert err.startswith("askew: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for part in parts:
        assert part in err
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_folder_that_holds_a_run_is_kept_unless_told_otherwise(cli, tmp_path):
    assert cli("run", *ROUNDS, "--out", "x")[0] == 0

    def contents():
        return [(tmp_path / "x" / name).read_bytes() for name in ("environment.json", "model.safetensors")]

    before = contents()
    code, _, err = cli("run", *ROUNDS, "--seed", "1", "--out", "x")
    assert (code, err.count("\n")) == (2, 1)
    assert "already holds a run; name another folder, or add --overwrite" in err
    assert cli("run", "--set", "rounds=nonsense", "--out", "x", "--overwrite")[0] == 2  # bad input overwrites nothing
    assert cli("run", "--set", "model=nonsense", "--out", "x", "--overwrite")[0] == 2
    assert contents() == before
    assert cli("run", *ROUNDS, "--seed", "1", "--out", "x", "--overwrite")[0] == 0
    assert askew.Recipe.from_toml((tmp_path / "x" / "recipe.toml").read_text()).seed == 1


def test_a_loss_that_is_not_a_number_is_exit_code_3(cli, tmp_path):
    code, out, err = cli("run", "--set", "sgd.lr=1e6", "--set", "rounds=50", "--out", "x")
    assert code == 3
    assert (out, err.count("\n")) == ("", 1)
    for part in ("askew: round 1: ", "client", "not finite", "lower the learning rate", "sgd.lr is 1000000.0"):
        assert part in err
    weights = load_file(tmp_path / "x" / "model.safetensors")
    assert all(bool(v.isfinite().all()) for v in weights.values())
    assert "not finite" in json.loads((tmp_path / "x" / "summary.json").read_text())["stopped"]


def test_ctrl_c_is_exit_code_130_and_resume_goes_on(cli, tmp_path, monkeypatch):
    real, calls = askew.rounds.simulation.Simulation.evaluate, []

    def strike(self, row):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, row)

    monkeypatch.setattr("askew.rounds.simulation.Simulation.evaluate", strike)
    code, out, err = cli("run", "--set", "rounds=4", "--out", "x", "--json")
    assert code == 130
    answer = json.loads(out)
    assert (answer["interrupted"], answer["rounds"]) == (True, 2)
    assert "interrupted after 2 of 4 rounds; continue with: askew resume x" in err
    code, out, _ = cli("resume", "x", "--json")
    assert code == 0
    assert json.loads(out)["rounds"] == 4
    assert cli("run", "--set", "rounds=4", "--out", "whole")[0] == 0
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    code, _, err = cli("resume", "x")
    assert (code, err.count("\n")) == (2, 1)
    assert "has no checkpoint: the run is finished" in err
    code, _, err = cli("resume", "nowhere")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_real_sigint(tmp_path):
    """A process of its own, with a start of its own, is sent SIGINT in mid-run; what it leaves goes on, in another one,
    to the same end as an unbroken run."""
    settings = ["--set", "rounds=120", "--set", "population=iid(clients=4)", "--set", "batch_size=60", "--json"]
    process = subprocess.Popen([sys.executable, "-c", "from askew.cli.app import main; main()", "run", *settings,
                                "--out", "broken"], text=True, cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    metrics, deadline = tmp_path / "broken" / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") >= 5):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["interrupted"] is True
    assert "askew resume broken" in err
    assert "Traceback" not in err
    assert {re.sub(r"-\d+", "", path.name) for path in (tmp_path / "broken").iterdir()} == {
        "askew.json", "checkpoint.json", "checkpoint.pt", "environment.json", "metrics.jsonl", "model.json",
        "model.safetensors", "recipe.toml", "summary.json"}
    done = json.loads(out)["rounds"]
    assert 5 <= done < 120
    assert metrics.read_text().count("\n") == done
    for arguments in (["resume", "broken", "--json"], ["run", *settings, "--out", "whole"]):
        forked = Forked(tmp_path, *arguments)
        out, err = forked.communicate()
        assert forked.returncode == 0, err
        assert json.loads(out)["rounds"] == 120
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_going_on_with_another_number_of_threads_is_one_line_of_warning(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("askew.engine.threads.SHARED", 0)  # as if the network were large

    def stop(record, recipe):
        raise KeyboardInterrupt

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        askew.run(askew.Recipe(rounds=2), engine="sequential", out=tmp_path / "one", on_round=stop)
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning",
                                lambda *given: sys.stderr.write(warnings.formatwarning(*given[:4])))
            code, out, err = cli("resume", "one")
    finally:
        torch.set_num_threads(before)
    assert code == 0
    lines = [line for line in err.splitlines() if "thread" in line]
    assert lines == ["askew: one was begun on 2 threads and goes on with 1: weights may differ in their last bits from "
                     "those of an unbroken run; for the same, set OMP_NUM_THREADS=2"]
    assert "warnings.warn(" not in err
    assert "accuracy" in out


def test_what_was_left_out_stands_at_the_end_and_in_the_summary(cli, tmp_path):
    troubles = "['drop_out(share=[1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0])', 'send_nan(clients=[1])']"
    settings = ["--set", "rounds=3", "--set", f"adversity={troubles}", "--set", "guard=leave_out()"]
    code, out, _ = cli("run", *settings, "--out", "x")
    assert code == 0
    assert "6 updates left out: 3 dropped out, 3 not finite" in out
    assert json.loads((tmp_path / "x" / "summary.json").read_text())["dropped"] == {"dropped_out": 3, "not_finite": 3}
    code, out, _ = cli("run", *settings, "--out", "y", "--json")
    assert json.loads(out)["dropped"] == {"dropped_out": 3, "not_finite": 3}
    code, out, _ = cli("run", "--set", "rounds=1", "--out", "z")
    assert "left out" not in out
    assert "dropped" not in json.loads((tmp_path / "z" / "summary.json").read_text())


def test_a_guard_that_is_missing_is_named_in_one_line(cli):
    code, _, err = cli("run", "--set", "rounds=2", "--set", "adversity=send_nan(clients=[1])", "--out", "x")
    assert (code, err.count("\n")) == (3, 1)
    assert "guard = 'leave_out()'" in err
