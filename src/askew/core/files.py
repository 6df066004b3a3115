"""Files: written so that a reader meets the old or the new one, whole; read so that none can hang us or fill memory.

Everything that askew writes goes through here. A file is written aside, under a name that says so, synced, and renamed;
an interruption at any instant leaves the old file, and at most a leftover that `is_leftover` knows.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError, UnwritableError

LEFTOVER = ".askew-new"  # in the names of files that are being written
MEGABYTE = 2**20


def is_leftover(path: Path) -> bool:
    """Whether a file is one that was being written when its writer was killed."""
    return path.name.startswith(".") and LEFTOVER in path.suffixes[-2:]


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """A path to write to; at the end of the block, what was written there replaces `path`, at once or not at all.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written(Path(folder) / "a.txt") as aside:
        ...         _ = aside.write_text("whole")
        ...     [file.name for file in Path(folder).iterdir()], (Path(folder) / "a.txt").read_text()
        (['a.txt'], 'whole')
    """
    path = Path(path)
    # The same suffix: some writers go by it. A name of its own: two processes may write the same file.
    aside = path.parent / f".{path.stem[:100]}-{secrets.token_hex(4)}{LEFTOVER}{path.suffix}"
    try:
        yield aside
        sync(aside)
        os.replace(aside, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Text as UTF-8, whole or not at all."""
    with written(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows of cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_json(path: str | Path, value: Mapping[str, Any]) -> None:
    """An object as JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def finite(value: Any) -> Any:
    """With null in place of numbers that JSON cannot hold (NaN, infinity), and numpy's and torch's as Python's."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: str | Path, what: str) -> dict[str, Any]:
    """An object from JSON.

    Args:
        what: the file is, for the error about one that is damaged.
    """
    text = read_text(path, what)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # 5,000 digits are a ValueError, too
        raise AskewError(f"{str(path)!r} is damaged: no {what} can be read from it ({str(error)[:100]})") from None
    if not isinstance(value, dict):
        raise AskewError(f"{str(path)!r} is damaged: a {what} is an object, not {type(value).__name__}")
    return value


def read_text(path: str | Path, what: str, most: int = 256 * MEGABYTE) -> str:
    """Text of a regular file of at most so many bytes; without the mark with which editors on Windows begin one."""
    check_regular(path, what, most)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise AskewError(f"{str(path)!r} is no {what}: it is not text in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise AskewError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None


def check_regular(path: str | Path, what: str, most: int | None = None) -> None:
    """Refuse what is no regular file (a pipe or a device would hang us), and one that is too large.

    Args:
        what: the file should be, for the error.
        most: bytes; None leaves the size to the reader.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        origin = ""
        if isinstance(error, FileNotFoundError) and not os.path.isabs(path):
            with contextlib.suppress(OSError):  # the folder that one is in may be gone
                origin = f" (a path that is not whole starts in {os.getcwd()!r})"  # a run may be resumed elsewhere
        raise AskewError(f"{str(path)!r} cannot be read: {reason}; name a {what}{origin}") from None
    if stat.S_ISDIR(status.st_mode):
        raise AskewError(f"{str(path)!r} is a folder; name a {what}")
    if not stat.S_ISREG(status.st_mode):
        raise AskewError(f"{str(path)!r} is no regular file (a pipe or a device); name a {what}")
    if most is not None and status.st_size > most:
        raise AskewError(f"{str(path)!r} has {status.st_size:,} bytes, too many for a {what} (at most {most:,})")


def check_new(path: str | Path, option: str, remedy: str = "name another file, or remove it first",
              overwrite: bool = False) -> Path:
    """Refuse, before any work, a file that exists or could not be written; nothing a person made is overwritten.

    Args:
        option: that names it, e.g. `--save`.
        overwrite: whether a person said that a file may be replaced; anything else that exists is refused all the same.
    """
    path = Path(path)
    check_home(path, option)
    if path.is_dir():
        raise AskewError(f"{option}: {str(path)!r} exists already and is a folder; name a file")
    if os.path.lexists(path) and not (overwrite and path.is_file()):
        raise AskewError(f"{option}: {str(path)!r} exists already; {remedy}")
    if not path.parent.is_dir():
        raise AskewError(f"{option}: {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise AskewError(f"{option}: {str(path)!r} cannot be written: {str(path.parent)!r} is read-only; "
                         "name another folder")
    return path


def check_home(path: Path, option: str) -> None:
    """Refuse to make a folder called ~, as shells leave it in --out=~/runs: to remove it is to risk one's own."""
    if (home := os.path.expanduser(path)) != str(path):
        raise AskewError(f"{option}: {str(path)!r}: ~ is not taken for your home folder here; write {home!r}")


def check_writable(path: Path, problem: str) -> None:
    """Refuse, before any work, a folder that cannot be made or written to.

    Args:
        problem: what the error begins with.
    """
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise AskewError(f"{problem}: {str(nearest)!r} is {'not writable' if nearest.is_dir() else 'a file'}; "
                         "name another folder")


def cannot_write(path: str | Path, error: OSError) -> UnwritableError:
    """One line for a disk that is full, a folder that is read-only or gone, ..."""
    return UnwritableError(f"{str(path)!r} cannot be written: {error.strerror or error}; "
                      "make room, or see to the folder, and go on from there")


def sha256(path: str | Path) -> str:
    """Of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """See to it that a file's bytes are on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Likewise for the names in a folder, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
