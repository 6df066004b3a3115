"""The command, or any other work, in a process of its own, without the seconds in which Python loads torch.

It is forked from a server that has loaded torch and has no threads: a child of the tests' own process, in which others
may hold a lock at that instant, can hang. What starts as a person starts it (imports, signals, exit codes) is tested in
real processes, in tests/cli.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import torch

from askew.cli.app import main
from askew.core import interrupt

try:
    SERVER = multiprocessing.get_context("forkserver")
    SERVER.set_forkserver_preload(["torch", "askew.cli.app", "askew.runs.run", "askew.runs.sweep", "askew.pieces"])
except ValueError:  # a system that has no os.fork, whose tests are skipped
    SERVER = None


class Forked:
    """`askew ARGUMENTS` in a folder, or other work; the names are those of `subprocess.Popen`.

    Args:
        work: can be pickled: a function of a module, or `functools.partial` of one.
        environment: beside the one here.
    """

    def __init__(self, folder: Path, *arguments: str, work: Callable[[], None] = main, **environment: str) -> None:
        self._told = tempfile.mkdtemp(prefix="forked-")
        self._process = SERVER.Process(target=_run, args=(str(folder), arguments, work, {**os.environ, **environment},
                                                          self._told))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        self._process.join(timeout)
        if self.poll() is None:
            os.kill(self.pid, signal.SIGUSR1)  # where it hangs goes to what it said
            self._process.join(1.0)
            self._process.kill()
            self._process.join()
        out, err = (Path(self._told, name).read_text() for name in ("out", "err"))
        shutil.rmtree(self._told)
        return out, err


def _run(folder: str, arguments: tuple[str, ...], work: Callable[[], None], environment: Mapping[str, str],
         told: str) -> NoReturn:
    """The child's life."""
    code = 1
    out, err = (Path(told, name).open("w") for name in ("out", "err"))  # noqa: SIM115
    try:
        for number in interrupt.SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, err)
        sys.stdout, sys.stderr = out, err
        sys.argv = ["askew", *arguments]
        os.environ.clear()
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
