"""Objectives other than cross-entropy on the command line: the headline's name stands where "accuracy" would."""

from __future__ import annotations

import json
import sys

import pytest

from askew.cli.app import main

ROWS = "a,b,price\n" + "".join(f"{i % 7},{i % 5},{(i % 7) / 3 - (i % 5) / 4}\n" for i in range(60))
RECIPE = """
data = "table('houses.csv', label='price', targets='numbers')"
population = "iid(clients=3)"
objective = "mean_squared_error"
rounds = 4
"""


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.csv").write_text(ROWS)
    (tmp_path / "houses.toml").write_text(RECIPE)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["askew", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return call


def test_a_run_says_what_it_is_judged_by(cli, tmp_path):
    code, out, _ = cli("run", "houses.toml", "--out", "one")
    assert code == 0
    assert "houses.toml" not in out
    assert "mean squared error" in out
    assert "accuracy" not in out
    assert "%" not in out
    answer = json.loads(cli("run", "houses.toml", "--out", "two", "--json")[1])
    assert answer["headline"] == "mean_squared_error"
    assert answer["mean_squared_error"] == answer["loss"] > 0
    summary = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert summary["mean_squared_error"] == answer["mean_squared_error"] >= summary["best_mean_squared_error"]


def test_a_sweep_puts_the_smallest_error_first(cli):
    code, out, _ = cli("sweep", "houses.toml", "--grid", "sgd.lr=0.001,0.03,0.1", "--json")
    assert code == 0
    errors = [row["mean_squared_error"] for row in json.loads(out)["configurations"]]
    assert errors == sorted(errors)
    assert errors[0] < errors[-1]
    out = cli("sweep", "houses.toml", "--grid", "sgd.lr=0.001,0.03")[1]
    assert "mean squared error" in out
    assert "accuracy" not in out


def test_a_federation_without_classes_is_drawn_and_others_refused(cli):
    data = "table('houses.csv', label='price', targets='numbers')"
    code, out, _ = cli("partition", "--scheme", "iid(clients=3)", "--data", data, "--json")
    assert code == 0
    assert json.loads(out)["class_names"] == ["numbers"]
    code, _, err = cli("run", "houses.toml", "--set", "population=label_blocks(clients=1)")
    assert (code, err.count("\n")) == (2, 1)
    assert "these data have numbers to learn instead; use iid, power_law, natural or pooled" in err


def test_a_comparison_is_by_accuracy(cli):
    code, _, err = cli("compare", "houses.toml", "--methods", "fedavg,fedprox", "--seeds", "1")
    assert code == 2
    assert "methods are compared by accuracy, and mean_squared_error is judged by mean_squared_error" in err
