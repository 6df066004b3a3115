"""`askew reproduce`, as a user types it, on a small paper of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from forked import Forked

import askew
from askew.cli.app import main
from askew.cli.reproduce import parse_seconds
from askew.papers import numbers, papers
from askew.papers.item import StandIn

Run = Callable[..., tuple[int, str, str]]
# A module, so that a process of its own can have the paper too.
PAPER = '''
from askew.core.recipe import Recipe
from askew.papers.item import Claim, Item, Row

BASE = Recipe(population="iid(clients=4)", batch_size=32, rounds=ROUNDS, client="sgd(lr=0.3)")
SKEWED = BASE.replace(population="shards(clients=4, shards_per_client=1)")
CLAIM = Claim("Skew costs accuracy", "section 1", lambda v: v["IID"] - v["skewed"])


def quick(recipe):
    return recipe.replace(rounds=2)


def table():
    return Item("toy2020", "table1", "What skew costs", (Row("IID", (BASE,)), Row("skewed", (SKEWED,))), quick,
                claims=(CLAIM,))


def figure():
    return Item("toy2020", "figure1", "Skewed alone", (Row("skewed", (SKEWED,)),), quick)


ITEMS = {"table1": table, "figure1": figure}
'''
NUMBERS = ('[table1]\nwhere = "table 1"\nunit = "%"\n[table1.rows]\nIID = {value = 77, spread = 9}\n'
           'skewed = {value = 10, about = true}\n')


def write_paper(folder: Path, rounds: int) -> None:
    (folder / "toy2020").mkdir(exist_ok=True)
    (folder / "toy2020" / "numbers.toml").write_text(NUMBERS)
    (folder / "toy.py").write_text(PAPER.replace("ROUNDS", str(rounds)))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Call `askew reproduce` with arguments in an empty folder; exit code, stdout, stderr."""
    (tmp_path / "paper").mkdir()
    (tmp_path / "here").mkdir()
    write_paper(tmp_path / "paper", rounds=3)
    space: dict[str, object] = {}
    exec((tmp_path / "paper" / "toy.py").read_text(), space)
    monkeypatch.setattr(papers, "PAPERS", ("toy2020",))
    monkeypatch.setattr(papers, "listed", lambda paper: space["ITEMS"])
    monkeypatch.setattr(numbers, "FOLDER", tmp_path / "paper")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "here")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "reproduce", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def lines_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_list_before_and_after(run: Run) -> None:
    code, out, _ = run("--no-estimate")
    assert code == 0
    assert ["toy2020/table1", "0/2", "8.62", "k", "not", "run"] in lines_of(out)  # 2 runs x 3 rounds x 1,437 digits
    assert "0 of 2 runs done (items share runs), 8.62 k images to train, unknown here" in out
    assert "numbers: 0 within, 0 ordering holds, 0 open, 0 differs, 2 not measured" in out
    assert "claims: 0 hold, 0 fail, 0 open, 1 not measured" in out
    assert list(Path().iterdir()) == []
    _, out, err = run()
    assert "timing mlp" in err
    assert "unknown here" not in out
    assert run("toy2020/table1")[0] == 0
    _, out, _ = run()
    assert ["toy2020/table1", "2/2", "0", "0", "s", "measured"] in lines_of(out)
    assert ["toy2020/figure1", "1/1", "0", "0", "s", "measured"] in lines_of(out)
    assert "claims: 1 hold, 0 fail, 0 open, 0 not measured" in out


def test_an_item_is_run_once_and_shown_beside_the_paper(run: Run) -> None:
    code, out, _ = run("toy2020/table1", "--seeds", "2")
    assert code == 0
    rows = {line[0]: line for line in lines_of(out) if line}
    assert rows["IID"][1:4] == ["77.00", "±", "9.00%"]
    assert rows["skewed"][1:3] == ["about", "10.00%"]
    assert re.search(r"IID .*77\.00 ± 9\.00% +\d\d\.\d\d ± \d+\.\d\d% +2 +open", out)  # 360 digits: noise of 2.2 points
    assert "holds: Skew costs accuracy (section 1)" in out
    assert "4 of 4 runs done" in out
    before = Path("results/toy2020/table1.json").stat().st_mtime_ns
    assert run("toy2020/table1", "--seeds", "2")[1] == out
    assert Path("results/toy2020/table1.json").stat().st_mtime_ns == before


def test_only_some_rows(run: Run) -> None:
    """The others are shown as they are, and a claim that asks for them is not decided."""
    assert ["toy2020/table1", "0/1", "4.31", "k", "not", "run"] in lines_of(run("--rows", "sk*", "--no-estimate")[1])
    _, out, _ = run("toy2020/table1", "--rows", "sk*", "--rows", "skewed")
    rows = {line[0]: line for line in lines_of(out) if line}
    assert len(rows["skewed"]) > len(rows["IID"])
    assert "not measured: Skew costs accuracy (section 1)" in out
    assert "1 of 1 runs done" in out
    assert "1 of 2 runs done" in run("toy2020/table1", "--list")[1]


def test_what_stands_in_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = papers.find("toy2020/table1")
    wild = replace(table, name="wild", rows=tuple(
        row.changed(lambda recipe: recipe.with_setting("sgd.lr", 1e38)) for row in table.rows),
        stand_in=StandIn("table1", lambda recipe: recipe.with_setting("sgd.lr", 0.3)))
    items = {"table1": lambda: table, "wild": lambda: wild}
    monkeypatch.setattr(papers, "listed", lambda paper: items)
    assert "open: runs diverged or ended at chance: Skew costs accuracy (section 1)" in run("toy2020/wild")[1]
    assert run("toy2020/table1", "--seeds", "2")[0] == 0
    assert "holds, by table1, which stands in: Skew costs accuracy (section 1)" in run("toy2020/wild")[1]


def test_json_is_what_single_runs_give(run: Run, tmp_path: Path) -> None:
    code, out, err = run("toy2020", "--json", "--engine", "sequential", "--results", "mine", "--work", "there")
    assert (code, err) == (0, "")
    table, figure = json.loads(out)["items"]
    assert (table["paper"], table["item"], table["status"], table["scale"]) == ("toy2020", "table1", "measured", "full")
    base = askew.Recipe(population="iid(clients=4)", batch_size=32, rounds=3, client="sgd(lr=0.3)")
    assert table["rows"][0]["ours"] == pytest.approx(100 * askew.run(base, engine="sequential").accuracy, rel=1e-4)
    assert [row["paper"] for row in table["rows"]] == [77, 10]
    assert table["claims"] == [{"says": "Skew costs accuracy", "where": "section 1", "holds": True,
                                "decision": "holds", "by": None}]
    assert (table["runs"], table["done"], table["images"], table["estimated_s"]) == (2, 2, 0, 0)
    assert figure["rows"][0]["ours"] == table["rows"][1]["ours"]
    assert {path.name for path in Path().iterdir()} == {"mine", "there"}
    assert len(list(Path("there/toy2020").iterdir())) == 2


def test_json_lists_without_training_or_timing(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("--json")
    assert code == 0
    said = json.loads(out)
    assert ([(entry["status"], entry["images"], entry["estimated_s"]) for entry in said["items"]]
            == [("not run", 8622, None), ("not run", 4311, None)])
    assert said["numbers"]["not measured"] == 2
    assert list(Path().iterdir()) == []
    assert not (tmp_path / "cache").exists()
    code, out, _ = run("toy2020/figure1", "--list", "--json")
    assert [entry["item"] for entry in json.loads(out)["items"]] == ["figure1"]
    assert list(Path().iterdir()) == []


def test_estimates_on_demand(run: Run) -> None:
    code, out, err = run("--estimate", "--json")
    assert code == 0
    assert err == "timing mlp(hidden=[64]) on digits ...\n"
    seconds = [entry["estimated_s"] for entry in json.loads(out)["items"]]
    assert seconds[0] == pytest.approx(2 * seconds[1])
    _, out, err = run("--estimate", "--json")  # remembered
    assert err == ""
    assert json.loads(out)["items"][0]["estimated_s"] == pytest.approx(seconds[0], rel=0.01)


def test_quick_is_called_so_and_counts_for_nothing_else(run: Run) -> None:
    code, out, _ = run("toy2020/table1", "--scale", "quick")
    assert code == 0
    assert "quick: a reduced version, whose numbers are not the paper's" in out
    assert "within" not in out
    assert "holds: " not in out
    assert Path("results/toy2020/quick/table1.json").is_file()
    assert "quick: a reduced version" in run("--scale", "quick")[1]
    _, out, _ = run("--json")
    assert {entry["status"] for entry in json.loads(out)["items"]} == {"not run"}


@pytest.mark.parametrize(("arguments", "message"), [
    (["toy2021"], "unknown paper 'toy2021'; did you mean 'toy2020'?"),
    (["toy2020/table2"], "toy2020 has no item 'table2'; did you mean 'table1'?"),
    (["toy2020", "--rows", "skewd"], "--rows: no row is called 'skewd'; did you mean 'skewed'?"),
    (["toy2020", "--scale", "huge"], "--scale must be full or quick, got 'huge'"),
    (["toy2020", "--seeds", "0"], "--seeds must be at least 1, got 0"),
    (["--seeds", "0"], "--seeds must be at least 1, got 0"),
    (["toy2020", "--limit", "soon"], "--limit takes a time such as 90s, 30m or 2h, got 'soon'"),
    (["toy2020", "--engine", "warp"], "unknown engine 'warp'"),
    (["toy2020", "--device", "warp"], "device 'warp' is not available here"),
    (["toy2020", "--results", "../paper/toy.py"], "is a file; name another folder"),
])
def test_bad_input_is_one_line_and_writes_nothing(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "0", "inf", "nan", "2d"])
def test_no_times(text: str) -> None:
    with pytest.raises(askew.AskewError, match="--limit takes a time"):
        parse_seconds(text)


# A process with the small paper in place of the five, and without the libraries that running does not need.
START = ("import sys, pathlib; sys.modules.update(dict.fromkeys(['pooch', 'PIL', 'tqdm', 'pyarrow', 'plotly']));"
         "sys.path.insert(0, '');"
         "import toy; from askew.papers import numbers, papers; papers.PAPERS = ('toy2020',);"
         "papers.listed = lambda paper: toy.ITEMS;"
         "numbers.FOLDER = pathlib.Path(); from askew.cli.app import main; main()")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_ctrl_c_and_a_limit_leave_all_for_the_same_command(tmp_path: Path) -> None:
    """A real process and a real signal, in the middle of training; then another process, which the limit stops."""
    write_paper(tmp_path, rounds=1500)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", START, "reproduce", "toy2020/table1", "--quiet"], cwd=tmp_path,
                               env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while (sum(path.stat().st_size > 0 for path in tmp_path.glob("runs/reproduce/toy2020/*/metrics.jsonl")) < 2
           and time.monotonic() < end):
        time.sleep(0.05)  # both runs have done a round
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted: the same command goes on from here\n"
    assert "0 of 2 runs done" in out
    rounds = [run["rounds"] for run in json.loads((tmp_path / "results/toy2020/table1.json").read_text())["runs"]]
    assert all(0 < done < 1500 for done in rounds)
    again = Forked(tmp_path, "reproduce", "toy2020/table1", "--limit", "1s", "--json", "--quiet",
                   work=partial(exec, START, {}), XDG_CACHE_HOME=str(tmp_path))
    out, err = again.communicate(timeout=60)
    assert (again.returncode, err) == (0, "stopped after 1s: the same command goes on from here\n")
    entry = json.loads(out)["items"][0]
    assert entry["status"] == "not run"
    later = [run["rounds"] for run in json.loads((tmp_path / "results/toy2020/table1.json").read_text())["runs"]]
    assert min(later) > min(rounds)
    assert entry["images"] == pytest.approx(1437 * sum(1500 - done for done in later), rel=0.01)
