"""What a newcomer reads must run: code blocks, commands, recipe files, links and the numbers of the README."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import typer

import askew
from askew.cli.app import COMMANDS, app
from askew.core import registry
from askew.report.method_page import COMPARISONS
from askew.runs.load import load_recipe

pytestmark = pytest.mark.slow  # whole runs: tens of them

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
RUN = ["README.md", "docs/guide.md", "docs/add-a-method.md", "docs/objectives.md",
       "docs/adverse-clients.md", "docs/kinds.md", "docs/tables.md", "docs/tracking.md", "docs/use-a-model.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Every line of an indented block or example that calls askew."""
    text = "\n".join(line for line in page.read_text().splitlines())
    lines = re.findall(r"^(?:    |#   )askew ([a-z].*)$", text, re.MULTILINE)
    # Columns of explanation stand three or more spaces behind a command.
    return [shlex.split(re.split(r" {3,}", line)[0]) for line in lines]


@pytest.mark.parametrize("name", RUN)
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Pieces that the page files must not outlive it.
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(pieces) for kind, pieces in registry._PIECES.items()})
    code = blocks(ROOT / name, "python")
    assert code
    namespace: dict[str, object] = {}
    for number, block in enumerate(code):
        file = re.match(r"# (\w+\.py)\n", block)
        if file:
            (tmp_path / file[1]).write_text(block)
        else:
            exec(compile(block, f"{name}, block {number}", "exec"), namespace)
    sys.modules.pop("my_methods", None)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("client", "server", "objective")
                                            for name in registry.names(kind)
                                            if registry.find(kind, name).__module__.startswith("askew.")])
def test_every_step_of_a_method_has_an_example_that_runs(kind: str, name: str) -> None:
    """`pytest` runs what stands behind >>> in the package, too."""
    assert ">>>" in (registry.find(kind, name).__doc__ or "")


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.name)
def test_commands_exist_with_these_options(page: Path) -> None:
    group = typer.main.get_command(app)
    for arguments in commands(page):
        command = group.get_command(None, arguments[0])  # type: ignore[attr-defined]
        assert command is not None, f"{page.name}: there is no 'askew {arguments[0]}'"
        command.make_context(arguments[0], arguments[1:])  # raises for an unknown option; nothing runs


def test_the_page_of_commands_has_all() -> None:
    listed = re.findall(r"`askew ([a-z]+)", (ROOT / "docs" / "commands.md").read_text())
    assert set(COMMANDS) <= set(listed)


def test_there_are_commands_to_check() -> None:
    assert {arguments[0] for page in PAGES for arguments in commands(page)} >= {"compare", "run", "resume", "partition"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_example_recipes_are_valid(file: Path) -> None:
    recipe = load_recipe(file)
    if recipe.data.name == "digits":
        assert askew.run(recipe.replace(rounds=1)).evaluations


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_numbers_of_the_default_job_are_those_of_the_recorded_run() -> None:
    """Every row of the two comparisons is on the page, and every row of the README's table is one of them."""
    measured, others = (json.loads((ROOT / "results" / name).read_text()) for name in COMPARISONS)
    text = (ROOT / "docs" / "demo.md").read_text()
    for row in measured["skew"]:
        assert re.search(rf"^{re.escape(row['name'])} .*{shown(row, 'accuracy')}", text, re.MULTILINE), row["name"]
    for row in measured["methods"] + others["methods"]:
        line = re.search(rf"^\| `{re.escape(row['name'])}` \|.*$", text, re.MULTILINE)
        assert line, row["name"]
        assert shown(row, "accuracy") in line[0]
        assert shown(row, "test_accuracy") in line[0]
    rows = {row["name"]: row for row in measured["methods"]}
    short = re.findall(r"^\| `([^`]+)`[^|]*\| ([^|]+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(short) >= 5
    for name, accuracy in short:
        assert accuracy == shown(rows[name], "test_accuracy"), name


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 50


def test_the_page_of_kinds_has_every_kind_as_it_is() -> None:
    """What functions of a kind return, and what they are given, are those of the registered ones."""
    text = (ROOT / "docs" / "kinds.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    assert sorted(kind for kind, _ in rows) == sorted(registry.KINDS)
    assert "fifteen" in text
    assert len(registry.KINDS) == 15
    for kind, cells in rows:
        field, returns, given, examples = (cell.strip() for cell in cells.split("|"))
        pieces = [registry.find(kind, name) for name in registry.names(kind)
                  if registry.find(kind, name).__module__.startswith("askew.")]
        signatures = [inspect.signature(function) for function in pieces]
        assert set(words(returns)) == {str(signature.return_annotation) for signature in signatures}, kind
        assert set(words(given)) == {name for signature in signatures for name in signature.parameters
                                     if name in registry.INJECTED}, kind
        assert set(words(examples)) <= set(registry.names(kind)), kind
        assert set(words(field)) <= {*askew.Recipe.__dataclass_fields__, "+", "lr"}, kind


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def shown(row: dict[str, float], key: str) -> str:
    return f"{100 * row[f'{key}_mean']:.1f} ± {100 * row[f'{key}_std']:.1f}"
