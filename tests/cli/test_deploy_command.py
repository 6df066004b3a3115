"""`askew deploy`: what it writes, what it refuses, and what it says where Flower is not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from askew.cli.app import main
from askew.core.recipe import Recipe

# Each side of an app in a process that knows nothing of its modules, forked from one that has loaded what takes long.
BOTH_SIDES = """
import importlib, os, sys
from pathlib import Path
import torch, flwr
from askew.runs.load import load_recipe
for side in ("client", "server"):
    if os.fork() == 0:
        importlib.import_module(f"federation.{side}_app").app
        print(load_recipe(Path("federation/recipe.toml")).server, flush=True)
        sys.exit()
    assert os.wait()[1] == 0, side
"""

flwr = pytest.importorskip("flwr", reason="flwr is not installed: pip install -e '.[test,flower]'")


Deploy = Callable[..., tuple[int, str, str]]


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Deploy:
    """The command, in this process: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "deploy", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), *capsys.readouterr()

    return call


def test_init_writes_an_app_that_flower_takes(deploy: Deploy, tmp_path: Path) -> None:
    recipe = Recipe(name="Hospitals, two", population="dirichlet(clients=3, alpha=0.5)", seed=4)
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    folder = tmp_path / "app"
    code, out, err = deploy("init", str(folder), "--recipe", str(tmp_path / "recipe.toml"), "--json")
    assert code == 0, err
    assert json.loads(out)["recipe"] == recipe.name
    assert Recipe.from_toml((folder / "federation" / "recipe.toml").read_text()) == recipe
    # What lies in the folder and is nobody else's: keys and a node's settings.
    (folder / "nodes" / "north").mkdir(parents=True)
    (folder / "nodes" / "north" / "node.toml").write_text('client = "north"\n')
    built = subprocess.run(["flwr", "build", "--app", str(folder)], cwd=tmp_path, capture_output=True, text=True,
                           check=False, env={**os.environ, "FLWR_HOME": str(tmp_path / "home"),
                                             "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
                                             "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    assert built.returncode == 0, built.stdout + built.stderr
    [bundle] = tmp_path.glob("*.fab")
    with zipfile.ZipFile(bundle) as archive:
        names = {name for name in archive.namelist() if not name.startswith(".info")}
    assert names == {"LICENSE", "pyproject.toml", "federation/__init__.py", "federation/client_app.py",
                     "federation/recipe.toml", "federation/server_app.py"}


def test_any_folder_and_any_name_will_do(deploy: Deploy, tmp_path: Path) -> None:
    """Spaces, quotes, other alphabets: what is written can be read back."""
    folder = tmp_path / 'Die "Föderation" \\ 1'
    code, _, err = deploy("init", str(folder), "--set", 'name=\'a """ b \\N\'')
    assert code == 0, err
    config = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert config["out"] == str(folder / "run")
    for file in (folder / "federation").glob("*.py"):
        compile(file.read_text(), str(file), "exec")


def test_init_overwrites_nothing(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a person's")
    code, _, err = deploy("init", str(tmp_path))
    assert code == 2
    assert err == f"askew: {str(tmp_path)!r} exists already and is not an empty folder; name a new one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize(("settings", "message"), [
    (["adversity=['drop_out(0.1)']"], "adversity: drop_out simulates what real clients do by themselves"),
    (["preprocess=['normalise()']", "data=\"table('nowhere.csv', label='a')\""],
     "preprocess: normalise measures the data"),
    (["rounds=0"], "rounds must be"),
])
def test_init_refuses_what_cannot_be_deployed(deploy: Deploy, tmp_path: Path, settings: list[str],
                                              message: str) -> None:
    code, _, err = deploy("init", str(tmp_path / "app"), *(f"--set={setting}" for setting in settings))
    assert code == 2
    assert err.startswith(f"askew: {message}")
    assert err.count("\n") == 1
    assert not (tmp_path / "app").exists()


def test_a_table_goes_along_as_a_schema_and_numbers(deploy: Deploy, tmp_path: Path) -> None:
    """Names, categories and means are in the app, and in what travels; of rows, nothing is."""
    rows = "".join(f"p{i},{20 + i},{ward},{i % 2}\n" for i, ward in enumerate(["heart", "lung"] * 10))
    (tmp_path / "pooled.csv").write_text("patient,age,ward,ill\n" + rows)
    folder, data = tmp_path / "app", f"table('{tmp_path / 'pooled.csv'}', label='ill', drop=['patient'])"
    code, out, err = deploy("init", str(folder), "--set", f'data="{data}"', "--set", "preprocess=['normalise()']")
    assert code == 0, err
    assert out.startswith("schema: 2 columns of a table as 3 inputs; names, words and means in ")
    about = json.loads((folder / "federation" / "schema.json").read_text())
    assert [feature["name"] for feature in about["features"]] == ["age", "ward"]
    assert about["others"] == ["patient"]
    recipe = Recipe.from_toml((folder / "federation" / "recipe.toml").read_text())
    assert len(recipe.preprocess[0].args["mean"]) == 3
    config = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert config["config"]["schema"] == "schema.json"
    assert "federation/schema.json" in config["fab-include"]
    assert not any("p7" in path.read_text() for path in folder.rglob("*") if path.is_file())


def test_modules_of_the_users_go_along(deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the recipe travels in the app; what is installed is imported by its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "halving.py").write_text(
        "from askew.core.registry import piece\nfrom askew.core.server_piece import ServerPiece\n\n\n"
        "@piece('server')\ndef halve() -> ServerPiece:\n"
        "    return ServerPiece(update=lambda u, state, ctx: ({k: v / 2 for k, v in u.items()}, state))\n")
    arguments = ["--import", "halving", "--import", "json", "--set", "server=['mean()', 'halve()']"]
    code, _, err = deploy("init", "app", *arguments)
    assert code == 0, err
    for side in ("client", "server"):
        lines = (tmp_path / "app" / "federation" / f"{side}_app.py").read_text().splitlines()
        assert [line.partition("  #")[0] for line in lines if line.startswith(("from federation", "import "))] == [
            "from federation import halving", "import json"]
    made = subprocess.run([sys.executable, "-c", BOTH_SIDES], cwd=tmp_path / "app", text=True, capture_output=True,
                          check=False)
    assert made.stdout.count("halve") == 2, made.stderr


def test_a_table_that_is_not_here_is_said_to_give_no_schema(deploy: Deploy, tmp_path: Path) -> None:
    code, out, err = deploy("init", str(tmp_path / "app"), "--set", "data=\"table('nowhere.csv', label='a')\"",
                            "--json")
    assert code == 0
    assert json.loads(out)["inputs"] is None
    assert err.startswith("askew: no schema: 'nowhere.csv' cannot be read: ")
    assert not (tmp_path / "app" / "federation" / "schema.json").exists()


def test_try_refuses_hundreds_of_processes(deploy: Deploy, tmp_path: Path) -> None:
    code, _, err = deploy("try", "--set", "population='iid(clients=100)'", "--keep", str(tmp_path / "kept"))
    assert code == 2
    assert err == "askew: population: 100 clients would be 100 processes here; try it with at most 16\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_flower_it_says_what_to_install(tmp_path: Path) -> None:
    """One process for both commands: its start takes longest."""
    start = ("import sys; sys.modules['flwr'] = None\nimport askew.cli.app\n"
             "for command in (['init', 'somewhere'], ['try']):\n"
             "    sys.argv = ['askew', 'deploy', *command]\n"
             "    try:\n        askew.cli.app.main()\n    except SystemExit as end:\n        print(end.code)")
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "2"], done.stderr
    for line in done.stderr.splitlines():
        assert line.startswith("askew: a deployment needs Flower (")
        assert line.endswith("): pip install 'askew[flower]'")
    assert done.stderr.count("\n") == 2
    assert list(tmp_path.iterdir()) == []


def test_try_says_what_is_lacking_where_flowers_commands_are_not_on_the_path(
        deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which",
                        lambda name, **more: None if name == "flower-supernode" else which(name, **more))
    code, _, err = deploy("try", "--rounds", "1", "--quiet", "--keep", str(tmp_path / "kept"))
    assert code == 2
    assert err == ("askew: flower-supernode is neither beside Python nor on the PATH; install Flower's commands, pip "
                   "install 'askew[flower]', and put their folder on the PATH\n")


def test_the_key_script_makes_keys_and_overwrites_none(deploy: Deploy, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    assert deploy("init", str(folder))[0] == 0

    def keys(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(folder / "keys.sh"), *arguments], capture_output=True, text=True, check=False)

    assert keys("server", "example.org", "192.0.2.7").returncode == 0
    assert keys("node", "north").returncode == 0
    shown = subprocess.run(["openssl", "x509", "-in", str(folder / "server" / "tls.crt"), "-noout", "-ext",
                            "subjectAltName"], capture_output=True, text=True, check=True).stdout
    for name in ("DNS:localhost", "IP Address:127.0.0.1", "DNS:example.org", "IP Address:192.0.2.7"):
        assert name in shown
    for private in ("server/ca.key", "server/tls.key", "nodes/north/key", "nodes/north/tls.key"):
        assert (folder / private).stat().st_mode & 0o077 == 0, private
    before = (folder / "server" / "ca.crt").read_bytes()
    again = keys("server", "example.org")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert (folder / "server" / "ca.crt").read_bytes() == before
    assert keys("node", "../north").returncode == 2
    assert keys().returncode == 2
