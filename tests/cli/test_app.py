"""The command itself: its version, `python -m askew`, and what it tells a shell that completes words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module, metadata

import pytest
import typer

from askew.cli.app import COMMANDS


def askew(*arguments: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-m", "askew", *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    assert not done.stderr
    return done.stdout


def test_the_version_is_that_of_the_package() -> None:
    assert askew("--version") == f"askew {metadata.version('askew')}\n"


@pytest.mark.parametrize(("words", "offered"), [
    ("", set(COMMANDS)),
    ("re", {name for name in COMMANDS if name.startswith("re")}),
    ("--v", {"--version"}),
    ("cite --", {"--json", "--help"}),
])
def test_what_a_shell_is_offered(words: str, offered: set[str]) -> None:
    code = ("import atexit, sys; from askew.cli.app import main\n"
            "atexit.register(lambda: 'torch' in sys.modules and sys.stderr.write('torch is loaded'))\n"
            "main()")
    line = f"askew {words}"
    environment = {**os.environ, "_ASKEW_COMPLETE": "complete_bash", "COMP_WORDS": line,
                   "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    script = askew("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert f"_ASKEW_COMPLETE=complete_{shell}" in script


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_no_brackets_that_the_terminal_takes_for_markup(command: str) -> None:
    found = typer.main.get_command(import_module(f"askew.cli.{command}").app)
    texts = [str(getattr(parameter, "help", "") or "") for parameter in found.params]
    assert texts
    assert not [text for text in texts if re.search(r"\[[a-z/]", text)]
