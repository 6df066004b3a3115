"""What a user's text says is printed as it is: brackets are no markup, dollars no formulas, slashes no folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import askew
from askew.cli import common
from askew.cli.app import app
from askew.cli.progress import RunProgress

pytestmark = pytest.mark.slow  # whole runs: tens of them

NAMES = ["[/x]", "[bold]", "[link=file:///]x[/link]", ":warning:", "$\\frac{", "../../up", "a/b", "%s {task} {0}",
         "x" * 150, "naïve 数据 😀", "\\"]
QUICK = ["--set", "rounds=1", "--set", "batch_size=0", "--set", "population=iid(clients=2)", "--set",
         "model=mlp(hidden=[2])"]


def call(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recipe_file(name: str) -> str:
    Path("r.toml").write_text(askew.Recipe(name=name).to_toml(), encoding="utf-8")
    return "r.toml"


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_any_name_stays_in_its_folder(name: str) -> None:
    said = call("run", recipe_file(name), *QUICK)
    assert name in said.replace("\n", "")
    [folder] = Path("runs").iterdir()
    assert {path.name for path in Path().iterdir()} == {"r.toml", "runs"}
    assert askew.Recipe.from_toml((folder / "recipe.toml").read_text(encoding="utf-8")).name == name
    assert not Path("..", "up").exists()


@pytest.mark.parametrize("name", ["[/x]", "$\\frac{"])
def test_sweeps_and_comparisons_print_any_name(name: str) -> None:
    file = recipe_file(name)
    assert "accuracy" in call("sweep", file, "--grid", f'name="{name}","b"'.replace("\\", "\\\\"), *QUICK, "--out", "s")
    call("compare", file, "--methods", "fedavg", "--seeds", "1", *QUICK, "--out", "c", "--plot", "p.png")


@pytest.mark.parametrize("name", NAMES)
def test_data_with_classes_of_any_name(name: str) -> None:
    rows = [f"{i},{label}" for i in range(12) for label in (name, "other")]
    Path("t.csv").write_text("x,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data = "table(path='t.csv', label='label')"
    call("partition", "--data", data, "--scheme", "iid(clients=2)", "--plot", "p.png", "--save", "p.npz")


@pytest.mark.parametrize("name", NAMES)
def test_the_line_of_progress_shows_any_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        monkeypatch.setattr("askew.cli.progress.err", common.console(file=nowhere, force_terminal=True))
        with RunProgress(1, name) as progress:
            progress.on_round({"accuracy": 0.5, "loss": 1.0}, askew.Recipe())


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\0", "\ud800", "x" * 201, "\u2028"])
def test_names_that_no_line_can_hold_are_refused(name: str) -> None:
    with pytest.raises(askew.AskewError, match="name must be one line of at most 200 printable characters"):
        askew.Recipe(name=name)


def test_every_console_prints_text_as_it_is() -> None:
    """No command makes a console of its own."""
    folder = Path(common.__file__).parent
    made = [path.name for path in folder.glob("*.py") if "Console(" in path.read_text(encoding="utf-8")]
    assert made == ["common.py"]
