"""The wheel as a stranger has it: built, installed into an empty folder, used from another, without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DATA = {"askew/py.typed", "askew/data/digits.npz", "askew/papers/other_works.bib", "askew/papers/zhao2018/citation.bib",
        "askew/papers/zhao2018/numbers.toml", "askew/papers/zhao2018/remarks.toml"}
RUN = """
import askew
assert askew.__file__.startswith({target!r}), askew.__file__
result = askew.run(askew.Recipe(population="iid(clients=3)", rounds=2))
assert len(result.records) == 2
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves folders behind; without the net."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "src" / "askew", source / "src" / "askew", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w",
               str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("askew-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder with the wheel's content: what `pip install --target` makes of it."""
    target = wheel.parent / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target),
               str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def python(installed: Path, where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=where, env=environment, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_every_module_and_all_data_are_in(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert names >= DATA
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "askew").rglob("*")
               if path.suffix in (".py", ".toml", ".bib", ".npz", ".html", ".css", ".js")}
    assert modules <= names
    assert not any(name.startswith(("tests", "benchmarks", "results")) for name in names)


def test_it_trains(installed: Path, tmp_path: Path) -> None:
    python(installed, tmp_path, "-c", RUN.format(target=str(installed)))
    assert not list(tmp_path.iterdir())


def test_the_command_works(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "bin" / "askew")
    assert python(installed, tmp_path, command, "cite", "data_sharing").stdout.startswith("@misc{zhao2018,\n")
    listed = python(installed, tmp_path, command, "reproduce", "zhao2018/table3-mnist", "--list", "--json").stdout
    assert '"paper": 98.69' in listed  # the paper's own number, from the package's data
    assert not list(tmp_path.iterdir())
