"""`askew deploy`: what it writes, what it refuses, and what it says where Flower is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from askew.cli.app import main
from askew.core.recipe import Recipe

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


def test_init_overwrites_nothing(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a person's")
    code, _, err = deploy("init", str(tmp_path))
    assert code == 2
    assert err == f"askew: {str(tmp_path)!r} exists already and is not an empty folder; name a new one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize(("setting", "message"), [
    ("adversity=['drop_out(0.1)']", "adversity: drop_out simulates what real clients do by themselves"),
    ("preprocess=['normalise()']", "preprocess: normalise measures the data"),
    ("rounds=0", "rounds must be"),
])
def test_init_refuses_what_cannot_be_deployed(deploy: Deploy, tmp_path: Path, setting: str, message: str) -> None:
    code, _, err = deploy("init", str(tmp_path / "app"), "--set", setting)
    assert code == 2
    assert err.startswith(f"askew: {message}")
    assert err.count("\n") == 1
    assert not (tmp_path / "app").exists()


def test_try_refuses_hundreds_of_processes(deploy: Deploy, tmp_path: Path) -> None:
    code, _, err = deploy("try", "--set", "population='iid(clients=100)'", "--keep", str(tmp_path / "kept"))
    assert code == 2
    assert err == "askew: population: 100 clients would be 100 processes here; try it with at most 16\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", [["init", "somewhere"], ["try"]])
def test_without_flower_it_says_what_to_install(tmp_path: Path, command: list[str]) -> None:
    start = (f"import sys; sys.modules['flwr'] = None; sys.argv = ['askew', 'deploy', *{command!r}]; "
             "import askew.cli.app; askew.cli.app.main()")
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("askew: a deployment needs Flower (")
    assert done.stderr.endswith("): pip install 'askew[flower]'\n")
    assert list(tmp_path.iterdir()) == []


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
