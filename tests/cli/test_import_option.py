"""Pieces of one's own on the command line: imported where the user says so, never because a file does."""

import os
import re
import sys
from types import SimpleNamespace

import pytest
import typer
from forked import Forked

from askew.cli.app import app
from askew.core import registry
from askew.core.errors import AskewError
from askew.core.recipe import Recipe

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
MODULE = """
from askew.core.recipe import Recipe
from askew.core.registry import piece
from askew.pieces.server.scale import scale

@piece("method")
def halved(base: Recipe | None = None) -> Recipe:
    return (base or Recipe()).replace(name="halved", server=("mean()", "half_step()"))

@piece("server")
def half_step():
    return scale(0.5)
"""


@pytest.fixture
def askew_here(tmp_path):
    """The command in a folder with such a module, in a process of its own: what is filed there stays there."""
    (tmp_path / "my_methods.py").write_text(MODULE)

    def call(*arguments):
        process = Forked(tmp_path, *arguments)
        out, err = process.communicate()
        return SimpleNamespace(returncode=process.returncode, stdout=out, stderr=err)

    return call


@pytest.mark.parametrize("name", ["run", "resume", "sweep", "compare", "bench", "reproduce", "partition"])
def test_every_command_that_takes_a_recipe_or_a_scheme_has_it(name):
    command = typer.main.get_command(app).get_command(None, name)
    needed = ["x"] if name == "resume" else ["--scheme", "x"] if name == "partition" else []
    context = command.make_context(name, ["--import", "a", "--import", "b", *needed])
    assert list(context.params["imports"]) == ["a", "b"]  # of some versions of typer a tuple


@needs_fork
def test_a_piece_of_ones_own_runs_and_resumes_where_its_module_is_named(askew_here, tmp_path):
    ran = askew_here("run", "--import", "my_methods", "--method", "halved", "--set", "rounds=1", "--out", "r", "--json")
    assert ran.returncode == 0, ran.stderr
    assert 'server = ["mean()", "half_step()"]' in (tmp_path / "r" / "recipe.toml").read_text()
    for arguments in (["resume", "r"], ["compare", "--methods", "fedavg,halved"]):
        said = askew_here(*arguments)
        assert said.returncode == 2
        assert re.search(r"unknown (method 'halved'|server 'half_step'); .*--import MODULE", said.stderr), said.stderr
        assert said.stderr.count("\n") == 1
    again = askew_here("resume", "--import", "my_methods", "r")
    assert again.stderr == "askew: 'r' has no checkpoint: the run is finished\n"


@needs_fork
def test_a_module_that_is_not_there_or_fails_is_one_line(askew_here, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    for name, says in (("nowhere", "No module named 'nowhere'"), ("broken", "division by zero")):
        said = askew_here("run", "--import", name)
        assert (said.returncode, said.stderr) == (2, f"askew: --import {name}: the module cannot be imported: {says}\n")
    assert not (tmp_path / "runs").exists()


def test_a_file_never_imports_anything(tmp_path, monkeypatch):
    (tmp_path / "loud_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    calls = {"server": ["loud_module:piece()"], "population": "loud_module:scheme(clients=3)",
             "probes": ["loud_module:p"]}
    for field, value in calls.items():
        with pytest.raises(AskewError,
                           match=r"names a module, which recipes may not; import it \(--import loud_module\)"):
            Recipe.from_mapping({field: value})
    with pytest.raises(AskewError, match="names a module"):
        registry.build("method", "loud_module:method")
    assert "loud_module" not in sys.modules
