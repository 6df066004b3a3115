"""`askew partition`, as a user types it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askew.cli.app import main
from askew.core import registry
from askew.core.population import Population

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `askew partition` with arguments; exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "partition", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def test_json_holds_counts_and_distances_that_fit_together(run: Run) -> None:
    code, out, _ = run("--data", "digits", "--scheme", "dirichlet", "--alpha", "0.1", "--clients", "20", "--json")
    assert code == 0
    said = json.loads(out)
    counts = np.array(said["counts"])
    assert counts.shape == (20, 10)
    p = np.array(said["class_totals"]) / sum(said["class_totals"])
    by_hand = np.abs(counts / counts.sum(axis=1, keepdims=True) - p).sum(axis=1)
    assert said["emd"] == pytest.approx(by_hand)
    assert said["mean_emd"] == pytest.approx(by_hand.mean())
    assert said["weighted_mean_emd"] == pytest.approx(np.average(by_hand, weights=counts.sum(axis=1)))
    assert said["sizes"] == counts.sum(axis=1).tolist()
    assert len(said["entropy"]) == 20
    assert said["scheme"].startswith("dirichlet(clients=20, alpha=0.1")
    assert said["seed"] == 0


def test_options_and_the_call_are_the_same_thing(run: Run) -> None:
    whole = run("--scheme", "dirichlet(clients=5, alpha=0.5, prior='uniform')", "--seed", "3", "--json")
    parts = run("--scheme", "dirichlet(alpha=0.5)", "--clients", "5", "--set", "prior=uniform", "--seed=3", "--json")
    over = run("--scheme", "dirichlet(9, alpha=0.5, prior='uniform')", "--clients", "5", "--seed", "3", "--json")
    assert whole[1] == parts[1] == over[1]
    assert whole[1] != run("--scheme", "dirichlet(clients=5, alpha=0.5, prior='uniform')", "--json")[1]


def test_each_convenience_option_reaches_its_scheme(run: Run) -> None:
    def said(scheme: str, *options: str) -> dict[str, Any]:
        return dict(json.loads(run("--scheme", scheme, "--clients", "10", *options, "--json")[1]))

    assert said("emd", "--emd", "1.2")["mean_emd"] == pytest.approx(1.2, abs=1e-3)
    assert said("classes_per_client", "--classes", "3")["classes_per_client"] == [3] * 10
    assert "shards_per_client=2" in said("shards", "--shards", "2")["scheme"]
    assert "alpha=inf" in said("dirichlet", "--alpha", "inf")["scheme"]


def test_the_table_shows_thirty_clients_and_sums_up_the_rest(run: Run) -> None:
    code, out, _ = run("--scheme", "iid", "--clients", "100")
    assert code == 0
    assert "and 70 more" in out
    assert "100 with 1,437 examples of 10 classes" in out
    assert "mean" in out
    small = run("--scheme", "label_blocks(clients=2)")[1]
    assert "more" not in small
    assert "000000111111" in small.replace(" ", "")


def test_help_names_every_scheme(run: Run) -> None:
    text = run("--help")[1]
    assert [name for name in registry.names("partition") if name not in text] == []


def test_server_share(run: Run) -> None:
    code, out, _ = run("--scheme", "label_blocks + hold_out(0.2, use=100) + share(0.5)", "--clients", "2", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["server_examples"] == 100
    assert said["classes_per_client"] == [10, 10]
    assert sum(said["sizes"]) == 1437 - round(0.2 * 1437) + 2 * 50


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_picture_is_written(run: Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"population{suffix}"
    code, out, err = run("--scheme", "power_law(clients=40)", "--plot", str(file), "--json")
    assert code == 0
    json.loads(out)  # the note that a file was written is not on stdout
    assert file.name in err.replace("\n", "")
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert file.read_bytes().startswith(start)


def test_the_saved_population_is_the_one_shown(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "population.npz"
    said = json.loads(run("--scheme", "shards(10, 2)", "--save", str(file), "--json")[1])
    saved = Population.load(file)
    assert saved.counts.tolist() == said["counts"]
    assert saved.scheme == said["scheme"]


@pytest.mark.parametrize(("arguments", "says"), [
    (["--scheme", "dirichlt", "--clients", "10"], "did you mean 'dirichlet'"),
    (["--scheme", "dirichlet", "--clients", "10", "--alpha", "-1"], "alpha=-1.0 must be at least 0"),
    (["--scheme", "dirichlet", "--clients", "10", "--alpha", "nan"], "alpha"),
    (["--scheme", "dirichlet", "--clients", "10"], "needs 'alpha'"),
    (["--scheme", "iid", "--clients", "100000"], "only 1437 examples"),
    (["--scheme", "iid", "--clients", "0"], "at least 1"),
    (["--scheme", "iid", "--clients", "3", "--alpha", "1"], "has no argument 'alpha'"),
    (["--scheme", "emd", "--clients", "10", "--emd", "1.9"], "out of range for 10 classes"),
    (["--scheme", "classes_per_client", "--clients", "10", "--classes", "11"], "classes=11"),
    (["--scheme", "iid(", "--clients", "10"], "cannot be read"),
    (["--scheme", "iid(clients=10)", "--set", "stratified"], "key=value"),
    (["--scheme", "iid(clients=10)", "--set", "stratified=maybe"], "stratified must be bool"),
    (["--scheme", "iid(clients=10) + share(0.5)"], "write + hold_out(0.2) before it"),
    (["--scheme", "iid + hold_out(1.5)", "--clients", "10"], "hold_out: fraction must be in (0, 1), got 1.5"),
    (["--scheme", "natural"], "name no owner"),
    (["--data", "digitz", "--scheme", "iid(clients=10)"], "digits"),
])
def test_bad_input_is_one_line_and_writes_nothing(run: Run, tmp_path: Path, arguments: list[str], says: str) -> None:
    files = ["--plot", str(tmp_path / "a.png"), "--save", str(tmp_path / "a.npz")]
    code, out, err = run(*arguments, *files)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_written_are_refused_before_anything_is(run: Run, tmp_path: Path) -> None:
    saved = str(tmp_path / "a.npz")
    for plot in (tmp_path / "a.jpg", tmp_path / "no" / "a.png"):
        code, out, _ = run("--scheme", "iid(clients=2)", "--plot", str(plot), "--save", saved)
        assert (code, out) == (2, "")
    code, _, err = run("--scheme", "iid(clients=2)", "--plot", str(tmp_path / "a.png"), "--save", str(tmp_path))
    assert code == 2
    assert "--save" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--save", "--plot"])
def test_nothing_that_exists_is_overwritten_unless_told(run: Run, tmp_path: Path, option: str) -> None:
    mine = tmp_path / ("mine.npz" if option == "--save" else "mine.png")
    mine.write_text("a person's work")
    code, out, err = run("--scheme", "iid(clients=2)", option, str(mine))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "exists already; name another file, or add --overwrite" in err
    assert mine.read_text() == "a person's work"
    assert run("--scheme", "iid(clients=2)", option, str(mine), "--overwrite")[0] == 0
    assert mine.read_bytes()[:4] in (b"PK\x03\x04", b"\x89PNG")
    assert list(tmp_path.iterdir()) == [mine]


def test_one_file_is_not_written_twice(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--scheme", "iid(clients=2)", "--save", str(tmp_path / "a.png"), "--plot",
                       str(tmp_path / "." / "a.png"))
    assert code == 2
    assert "--save and --plot name one file" in err


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_what_is_no_file_is_never_replaced(run: Run, tmp_path: Path, overwrite: list[str]) -> None:
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    for name in ("folder.npz", "pipe.npz", "loop.npz"):
        assert run("--scheme", "iid(clients=2)", "--save", str(tmp_path / name), *overwrite)[0] == 2
    assert len(list(tmp_path.iterdir())) == 3
