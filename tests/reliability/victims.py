"""Runs in processes that are killed: the recipes, how a victim is started and struck, and what must be left of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import askew
from askew.core import files, interrupt
from askew.pieces.methods import fedavg, fedavgm, fedcd, fednnnn, ozdayi_combination, scaffold

LONG = bool(os.environ.get("ASKEW_LONG"))
RECORD = os.environ.get("ASKEW_RECORD")  # a folder for results of the long form
BASE = askew.Recipe(rounds=6, fraction=0.5, batch_size=50, probes=["update_norms()"])
RECIPES = [fedavg(BASE), fedavgm(BASE), fednnnn(BASE), fedcd(BASE, milestones=[1, 3]), ozdayi_combination(BASE),
           scaffold(BASE)]


def contents(folder: Path) -> dict[str, bytes]:
    """All files that must not depend on interruptions (times and dates do)."""
    dated = ("summary.json", "environment.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in dated}


def begin_or_go_on(recipe: askew.Recipe, folder: Path, **options: Any) -> askew.Result | None:
    """What a person does after a crash: resume, or, with nothing to resume, run it again, unless it is finished."""
    try:
        return askew.resume(folder, **options)
    except askew.AskewError as error:
        if "the run is finished" in str(error):
            return None
        if not any(words in str(error) for words in ("before its first checkpoint", "not a run folder")):
            raise
    return askew.run(recipe, out=folder, overwrite=folder.exists(), **options)


def in_a_child(work: Callable[[], Any]) -> int:
    """Start work in a child process, and give its number; it ends with code 0, 1 after an error, 3 interrupted."""
    child = os.fork()
    if child:
        return child
    code = 1
    for number in interrupt.SIGNALS:  # tests that were started in the background inherit that some are ignored
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        result = work()
        code = 3 if getattr(result, "interrupted", False) else 0
    finally:
        os._exit(code)


def wait_for(child: int, seconds: float = 120.0) -> int:
    """The child's exit code; negative, the signal that ended it. One that hangs is ended, and fails."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"the child hangs for {seconds} s")


class Strikes:
    """Kills this process at the k-th operation on files of a kind: in the middle of what is being written."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.left = kind, number

    def install(self) -> None:
        """In a child, which is not to come back."""
        if self.kind == "write":  # half of the bytes, then the end
            real = Path.write_bytes

            def half(path: Path, content: Any) -> int:
                self.left -= 1
                if self.left == 0:
                    real(path, bytes(content)[: len(content) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(path, content)

            Path.write_bytes = half  # type: ignore[method-assign, assignment]
        else:
            events = {"replace": ("os.rename",), "remove": ("os.remove", "os.rmdir"), "open": ("open",)}[self.kind]
            sys.addaudithook(lambda event, _: self._strike() if event in events else None)

    def _strike(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def record(name: str, value: dict[str, Any]) -> None:
    """Keep what the long form found, where it was asked for."""
    if RECORD:
        from askew.runs.environment import describe_environment

        Path(RECORD).mkdir(parents=True, exist_ok=True)
        environment = {key: v for key, v in describe_environment("cpu").items()
                       if key in ("versions", "commit", "started", "platform", "cpus")}
        files.write_json(Path(RECORD) / f"{name}.json", {**json.loads(json.dumps(value)), "environment": environment})
