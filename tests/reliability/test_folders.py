"""Nothing that a person made is lost: only what askew wrote goes, one process at a time, each run in its own folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from forked import Forked
from victims import BASE, contents, in_a_child, wait_for

import askew
from askew.runs.compare import compare
from askew.runs.folders import check_many, kind_of

SHORT = BASE.replace(rounds=1)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("files", [
    {"recipe.toml": "rounds = 1\n", "data.csv": "1,2\n"},
    {"recipe.toml": "rounds = 1\n"},
    {"recipe.toml": "rounds = 1\n", "environment.json": '{"mine": 1}', "metrics.jsonl": ""},
    {"askew.json": "my notes on askew"},
    {"askew.json": '{"askew": "sweep", "format": 1}', "0/recipe.toml": ""},
    {"notes.txt": "mine"}, {"sub/data.npz": "x"},
], ids=lambda files: "+".join(files))
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_not_a_run_is_never_touched(tmp_path: Path, files: dict[str, str], overwrite: bool) -> None:
    for name, text in files.items():
        (tmp_path / "exp" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "exp" / name).write_text(text)
    before = snapshot(tmp_path)
    with pytest.raises(askew.AskewError, match="is not empty and holds no run; name another folder") as refused:
        askew.run(SHORT, out=tmp_path / "exp", overwrite=overwrite)
    assert ("was damaged" in str(refused.value)) == (files.get("askew.json") == "my notes on askew")
    assert snapshot(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_command_that_emptied_a_folder(tmp_path: Path) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "recipe.toml").write_text("rounds = 1\n")
    (tmp_path / "exp" / "data.csv").write_text("1,2\n")
    before = snapshot(tmp_path)
    for where, arguments in ((tmp_path, ("exp/recipe.toml", "--out", "exp")),
                             (tmp_path / "exp", ("recipe.toml", "--out", "."))):
        done = Forked(where, "run", *arguments, "--overwrite")
        _, said = done.communicate()
        assert (done.returncode, said.count("\n")) == (2, 1), said
        assert snapshot(tmp_path) == before


def test_overwriting_a_run_leaves_what_is_not_askews(tmp_path: Path) -> None:
    run = tmp_path / "run"
    askew.run(askew.methods.scaffold(BASE), out=run, checkpoint_every=1, on_round=_stop)
    mine = {"notes.txt": b"mine", "memory/notes.txt": b"mine, too", "model.pt": b"mine", "plots/a.png": b"x",
            "best.safetensors": b"x", "checkpoint-best.pt": b"x"}
    for name, content in mine.items():
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(content)
    askew.run(SHORT, out=run, overwrite=True)
    left = snapshot(run)
    assert {name: left[name] for name in mine} == mine
    askew.run(SHORT, out=tmp_path / "fresh")
    left = {name: content for name, content in contents(run).items() if name not in mine}
    assert left == contents(tmp_path / "fresh")


def _stop(record: askew.Record, recipe: askew.Recipe) -> None:
    if record["round"] == 3:
        raise KeyboardInterrupt


def test_links(tmp_path: Path) -> None:
    """To a folder it is that folder; to nowhere or to a file it is refused."""
    (tmp_path / "real").mkdir()
    (tmp_path / "file").touch()
    for name, target in {"link": "real", "lost": "nowhere", "wrong": "file"}.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    askew.run(SHORT, out=tmp_path / "link")
    askew.run(SHORT, out=tmp_path / "link", overwrite=True)
    assert kind_of(tmp_path / "real") == "run"
    for name, said in {"lost": "link to nowhere", "wrong": "is a file"}.items():
        with pytest.raises(askew.AskewError, match=said):
            askew.run(SHORT, out=tmp_path / name, overwrite=True)


@pytest.mark.parametrize("kind", ["comparison", "sweep"])
def test_going_on_in_a_foreign_folder_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(askew.AskewError, match=f"holds no {kind}"):
        check_many(tmp_path / "mine", True, kind)
    if kind == "comparison":
        with pytest.raises(askew.AskewError, match="holds no comparison"):
            compare({"a": SHORT}, [0], out=tmp_path / "mine", go_on=True)
    assert snapshot(tmp_path / "mine") == {"notes.txt": b"mine"}
    askew.run(SHORT, out=tmp_path / "run")
    with pytest.raises(askew.AskewError, match=f"holds no {kind}"):
        check_many(tmp_path / "run", True, kind)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    folder, long = tmp_path / "run", BASE.replace(rounds=100_000)
    child = in_a_child(lambda: askew.run(long, out=folder, checkpoint_every=1))
    while not list(folder.glob("checkpoint-*.json")):
        time.sleep(0.01)
    try:
        for call in (lambda: askew.resume(folder), lambda: askew.run(SHORT, out=folder, overwrite=True)):
            with pytest.raises(askew.AskewError, match="is in use by another process"):
                call()
    finally:
        os.kill(child, 15)
    assert wait_for(child) == 3
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    assert [f'{{"round": {n + 1},' in row for n, row in enumerate(rows)] == [True] * len(rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_runs_that_start_in_the_same_second_have_a_folder_each(tmp_path: Path) -> None:
    processes = [Forked(tmp_path, "run", "--set", "rounds=1", "--json") for _ in range(6)]
    ends = [(process.communicate(), process.returncode) for process in processes]
    assert [code for _, code in ends] == [0] * 6, ends
    assert len(list((tmp_path / "runs").iterdir())) == 6
    assert all((folder / "summary.json").exists() for folder in (tmp_path / "runs").iterdir())
