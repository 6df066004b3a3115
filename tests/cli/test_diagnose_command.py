"""`askew diagnose`, as a user types it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from askew.cli.app import main
from askew.core.dataset import Source
from askew.partition import draw

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "diagnose", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def test_a_saved_population_and_its_csv_say_the_same(run: Run, tmp_path: Path) -> None:
    population = draw("emd(clients=10, emd=1.44)", Source(np.arange(50_000) % 10, 10))
    population.save(tmp_path / "p.npz")
    np.savetxt(tmp_path / "p.csv", population.counts, fmt="%d", delimiter=",")
    saved, table = (json.loads(run(str(tmp_path / name), "--json")[1]) for name in ("p.npz", "p.csv"))
    for key in ("counts", "emd", "mean_emd", "weighted_mean_emd", "entropy", "sizes", "verdict", "expected_loss"):
        assert saved[key] == table[key]
    assert saved["mean_emd"] == pytest.approx(1.44)
    assert "mean EMD 1.44: expect FedAvg to lose about 7 points on CIFAR-10-like tasks" in saved["verdict"]
    assert saved["expected_loss"]["points"]["CIFAR-10"] == pytest.approx(7.2)


def test_clinics(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "clinics.csv"
    file.write_text("clinic,benign,malignant,unclear\nNorth,90,10,0\nSouth,80,25,0\nEast,5,95,0\nTiny,1,0,0\n")
    code, out, _ = run(str(file))
    text = " ".join(out.split())
    assert code == 0
    assert "4 with 306 examples of 3 classes" in text
    assert "Nobody has an example of class unclear" in text
    assert "1 of 4 clients lack at least one class that others have" in text
    assert "scaled" in text  # three classes are not ten
    said = json.loads(run(str(file), "--json")[1])
    assert said["most_unusual"][0] == "East"
    assert said["missing_classes"] == ["unclear"]
    assert said["class_names"] == ["benign", "malignant", "unclear"]


def test_names_with_brackets_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("client,a,b\n[red]W[/red],1,2\nB,3,4\n")
    assert "[red]W[/red]" in run(str(file))[1]


def test_the_picture(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("A,1,2\nB,30,4\n")
    assert run(str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.svg"))[0] == 0
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(("name", "content", "says"), [
    ("missing.csv", None, "No such file or directory; name a population saved by"),
    ("missing.npz", None, "No such file or directory; name a population saved by"),
    ("large.csv", "client,cat,dog\nA,1,1e999\n", "row 2 ('A'), column 3 ('dog'): 1e999 is too large"),
    ("negative.csv", "client,cat,dog\nA,1,2\nB,-3,4\n", "row 3 ('B'), column 2 ('cat'): -3 is negative"),
    ("words.csv", "client,cat,dog\nA,1,many\n", "row 2 ('A'), column 3 ('dog'): 'many' is not a number"),
    ("empty.csv", "", "is empty"),
    ("broken.npz", "not a population", "cannot be read as a population file"),
])
def test_bad_input_is_one_line_and_writes_nothing(run: Run, tmp_path: Path, name: str, content: str | None,
                                                  says: str) -> None:
    file, picture = tmp_path / name, tmp_path / "picture.png"
    if content is not None:
        file.write_text(content)
    code, out, err = run(str(file), "--plot", str(picture))
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert not picture.exists()


def test_a_picture_that_exists_is_not_overwritten_unless_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("A,1,2\nB,30,4\n")
    (tmp_path / "a.svg").write_text("a person's work")
    code, out, err = run(str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.svg"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "exists already; name another file, or add --overwrite" in err
    assert (tmp_path / "a.svg").read_text() == "a person's work"
    assert run(str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.svg"), "--overwrite")[0] == 0
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("name", ["pipe.npz", "pipe.csv", "pipe"])
def test_a_pipe_does_not_hang(run: Run, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    code, _, err = run(str(tmp_path / name))
    assert code == 2
    assert "is no regular file" in err


@pytest.mark.parametrize("length", [1, 13, 14, 30, 80, 300])
def test_long_names_leave_the_numbers_whole(length: int, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(["hospital,y", *["h" * length + ",a"] * 12345, "k,b", "k,a"]) + "\n")
    code, said, _ = run(str(file), "--label", "y", "--client", "hospital")
    table = said.partition("Most unusual clients")[2]
    assert code == 0
    assert table.count("h") >= length
    for whole in ("examples  classes", "EMD  entropy  class distribution", "12,345", "1.00  " + "0" * 15 + "1" * 15):
        assert whole in table
