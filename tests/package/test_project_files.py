"""The project's own files: one version everywhere, and the check of text files that runs before a commit."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("check_files", ROOT / ".ci" / "check_files.py")
assert spec is not None
assert spec.loader is not None
check_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_files)


def test_one_version_and_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = dict(re.findall(r"^(version|license): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert cited == {"version": project["version"], "license": project["license"]}


def test_promised_pythons_are_the_classified_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r"Python :: 3\.\d", line)]
    assert versions == ["3.11", "3.12", "3.13"]


def test_addresses_are_those_of_the_citations() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    numbers = {path.parent.name: re.findall(r"eprint\s*= \{(.*)\}", path.read_text())
               for path in (ROOT / "src" / "askew" / "papers").glob("*/citation.bib")}
    assert urls == {paper: f"https://arxiv.org/abs/{number}" for paper, found in numbers.items() for number in found}


@pytest.mark.parametrize(("name", "text", "problem"), [
    ("a.py", "x = 1 \n", "a.py:1: spaces at the end of the line"),
    ("a.py", "if x:\n\ty = 1\n", "a.py:2: a tab"),
    ("a.md", "text", "a.md: must end with one newline"),
    ("a.md", "text\n\n", "a.md: must end with one newline"),
    ("a.md", "<" * 7 + " HEAD\n", "a.md:1: a mark of an unfinished merge"),
    ("a.toml", "x = \n", "a.toml:1: spaces at the end of the line"),
    ("a.json", "{1}\n", "a.json: cannot be read"),
])
def test_a_problem_is_named(name: str, text: str, problem: str, tmp_path: Path,
                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    assert check_files.problems(Path(name))[0].startswith(problem)


def test_a_sound_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1\n")
    assert check_files.problems(tmp_path / "a.toml") == []
