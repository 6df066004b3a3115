"""The command, or any other work, in a child of this process: a process of its own, without the seconds in which Python
loads torch.

What starts as a person starts it (imports, signals, exit codes) is tested in real processes, in tests/cli.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

import torch

from askew.cli.app import main
from askew.core import interrupt


class Forked:
    """`askew ARGUMENTS` in a folder, or other work; the names are those of `subprocess.Popen`."""

    def __init__(self, folder: Path, *arguments: str, work: Callable[[], None] = main, **environment: str) -> None:
        self._out, self._err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
        self.pid, self.returncode = os.fork(), None
        if self.pid == 0:
            _run(folder, arguments, work, environment, self._out, self._err)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.returncode is None:
            number, status = os.waitpid(self.pid, os.WNOHANG)
            if number:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.005)
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return texts[0], texts[1]


def _run(folder: Path, arguments: tuple[str, ...], work: Callable[[], None], environment: dict[str, str], out: IO[str],
         err: IO[str]) -> NoReturn:
    """The child's life; nothing of the tests' own is run at its end."""
    code = 1
    try:
        for number in interrupt.SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        sys.stdout, sys.stderr = out, err
        sys.argv = ["askew", *arguments]
        os.environ.update(environment)
        os.chdir(folder)
        torch.set_num_threads(1)
        warnings.resetwarnings()  # as Python sets out; those of the tests raise and record
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = _show
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc(file=err)
    finally:
        out.flush()
        err.flush()
        os._exit(code)


def _show(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: object = None,
          line: str | None = None) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
