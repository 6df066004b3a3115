"""One process at a time in a folder: a lock on its marker file, which the system lifts however the process ends."""

from __future__ import annotations

import contextlib
import errno
import sys
from pathlib import Path
from typing import IO

from askew.core.errors import InUseError
from askew.core.files import cannot_write


class Lock:
    """Held from its making until `release`.

    Args:
        file: an existing file that is never replaced.
        folder: what to call it in the error.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self._file: IO[bytes] | None = None
        try:
            self._file = _opened(file)
            if not _taken(self._file):
                raise InUseError(f"{str(folder)!r} is in use by another process; wait until it has ended, "
                                 "or name another folder")
        except OSError as error:
            raise cannot_write(file, error) from error
        except InUseError:
            self.release()
            raise

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(file: Path) -> IO[bytes]:
    """A sweep holds a lock per configuration that it trains: hundreds."""
    try:
        return file.open("rb+")
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return file.open("rb+")


def _taken(file: IO[bytes]) -> bool:
    """Whether the lock could be had; where the system knows none (Windows, some network drives) it is not kept."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
