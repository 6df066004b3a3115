"""The other end of a contestant: its process, seen from the benchmark."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

PATIENCE_S = 300  # for one answer; a first start of Flower takes about 20 s


class LeftOut(Exception):
    """A contestant that cannot take part, and why."""


class Process:
    """A contestant that runs only when it is asked something: between answers it is stopped, so that nothing it does
    in the background (Flower looks for messages ten times a second) takes time from the others.

    Args:
        command: how to start it.
        threads: of one of its processes.
        log: where its standard error goes.
        cache: an empty folder in the place of the user's cache, so that what was remembered there has no say.
    """

    def __init__(self, command: list[str], threads: int, log: Path, cache: Path) -> None:
        self.threads, self.log = threads, log
        settings = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "XDG_CACHE_HOME": str(cache)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"),
                                         text=True, env={**os.environ, **settings})

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LeftOut(self._last_words()) from None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        if not ready:
            raise LeftOut(f"no answer to {command['do']!r} within {PATIENCE_S} s")
        line = self._process.stdout.readline()
        if not line:
            raise LeftOut(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise LeftOut(answer["error"])
        self._process.send_signal(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        """Let it end by itself; end it if it does not."""
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _last_words(self) -> str:
        self._process.wait(timeout=60)
        lines = [line for line in self.log.read_text().splitlines() if line.strip()]
        return f"ended with status {self._process.returncode}: {lines[-1] if lines else 'no message'}"
