"""Folders that askew writes to: whose one is, and who is at work in it. Nothing that a person put there is touched."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from askew.core import files
from askew.core.errors import AskewError
from askew.runs.lock import Lock

MARKER = "askew.json"  # says that a folder is askew's, and what is in it
RECIPE, METRICS, ENVIRONMENT = "recipe.toml", "metrics.jsonl", "environment.json"
PAGE = "report.html"  # what `askew report` writes of runs


def check_apart(folders: Sequence[Path]) -> None:
    """Refuse folders of which one is named twice, or lies in another."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    for place in places:
        if places.count(place) > 1 or any(parent in places for parent in place.parents):
            raise AskewError(f"folders: {str(place)!r} is named twice or lies in another of them; give each run "
                             "its own")


def check_free(path: Path, overwrite: bool = False) -> None:
    """Refuse a folder that holds a run, and, with `overwrite`, one that holds anything else."""
    files.check_home(path, "--out")
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or has a null byte
        raise AskewError(f"--out: {str(path)!r} cannot be a folder: {getattr(error, 'strerror', None) or error}; "
                         "name another") from None
    if not exists:
        if path.is_symlink():
            raise AskewError(f"--out: {str(path)!r} is a link to nowhere; name another folder")
        files.check_writable(path, f"--out: {str(path)!r} cannot be made")
        return
    if not path.is_dir():
        raise AskewError(f"--out: {str(path)!r} is a file; name a folder")
    if not os.access(path, os.W_OK):
        raise AskewError(f"--out: {str(path)!r} is not writable; name another folder")
    kind = kind_of(path)
    if kind == "run":
        if not overwrite and (path / RECIPE).exists():
            raise AskewError(f"--out: {str(path)!r} already holds a run; name another folder, or add --overwrite")
    elif not _is_empty(path):
        damaged = kind is None and (path / MARKER).exists()
        remedy = f', or, if it is a run whose {MARKER} was damaged, write {{"askew": "run"}} to that file' * damaged
        raise AskewError(f"--out: {str(path)!r} is not empty and holds no run; name another folder{remedy}")


def check_many(path: Path | None, go_on: bool, kind: str) -> None:
    """Refuse, before any work, a folder that could not take a sweep or a comparison, or hold one to continue."""
    if go_on and (path is None or not path.is_dir()):
        raise AskewError(f"--resume needs --out with the folder of an interrupted {kind}, got "
                         f"{str(path) if path else 'none'}")
    if path is None:
        return
    if not go_on:
        if path.is_dir() and not _is_empty(path):
            remedy = f", or add --resume to continue the {kind} in it" if kind_of(path) == kind else ""
            raise AskewError(f"--out: {str(path)!r} is not empty; name another folder{remedy}")
        check_free(path)
    elif not _is_empty(path) and kind_of(path) != kind:
        raise AskewError(f"--resume: {str(path)!r} holds no {kind}; name the folder of an interrupted one")


def kind_of(path: Path) -> str | None:
    """What askew keeps in a folder ("run", "sweep", "comparison"), by its marker; None where it is not askew's.

    Folders of earlier versions have none: a run is known by all of the files that those wrote at its beginning, many
    runs by their folders, of which all must be runs.
    """
    if (path / MARKER).is_file():
        with contextlib.suppress(AskewError):
            kind = files.read_json(path / MARKER, "marker").get("askew")
            return kind if isinstance(kind, str) else None
        return None
    if _is_earlier_run(path):
        return "run"
    inside = [inner for inner in path.iterdir() if inner.is_dir() and inner.name != "skew"]
    if inside and all(_is_earlier_run(inner) or kind_of(inner) == "run" for inner in inside):
        return "comparison" if all(re.search(r"-seed-?\d+$", inner.name) for inner in inside) else "sweep"
    return None


def _is_empty(path: Path) -> bool:
    """Whether it holds nothing, or only what a process left that was killed while it wrote."""
    return all(files.is_leftover(inner) for inner in path.iterdir())


def _is_earlier_run(path: Path) -> bool:
    try:
        about = files.read_json(path / ENVIRONMENT, "description of the environment")
    except AskewError:
        return False
    return ({"versions", "device", "started"} <= about.keys()
            and (path / RECIPE).is_file() and (path / METRICS).is_file())


def mark(path: Path, kind: str) -> None:
    """Make a folder askew's, if it is not yet. The marker appears whole, and is never replaced: the lock is on it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if (path / MARKER).exists():
            return
        # Readable to whoever may read the folder, which a temporary file of Python's is not.
        aside = path / f".askew-{secrets.token_hex(4)}{files.LEFTOVER}.json"
        try:
            aside.write_text(json.dumps({"askew": kind, "format": 1}) + "\n", encoding="utf-8")
            files.sync(aside)
            try:
                os.link(aside, path / MARKER)
            except FileExistsError:  # by another process, just now
                pass
            except OSError:  # a drive without links
                files.write_text(path / MARKER, aside.read_text(encoding="utf-8"))
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise files.cannot_write(path, error) from error
    files.sync_folder(path)


@contextlib.contextmanager
def held(path: Path | None, kind: str) -> Iterator[None]:
    """A folder of many runs, marked as such, with other processes kept out; gone again if an error comes before
    anything is put there, so that the same command, put right, finds it free."""
    if path is None:
        yield
        return
    was_there = path.exists()
    mark(path, kind)
    lock = Lock(path / MARKER, path)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if [inner.name for inner in path.iterdir()] == [MARKER]:
                (path / MARKER).unlink()
                if not was_there:
                    path.rmdir()
        raise
    finally:
        lock.release()


@contextlib.contextmanager
def default_folder(name: str) -> Iterator[Path]:
    """runs/DATE-TIME-NAME, with a number behind it if that exists; gone again if nothing is put there.

    It is made here, so that processes that start in the same second have one each.
    """
    plain = re.sub(r"[^\w.=+-]+", "-", name).strip("-.")[:80]
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{plain}"
    root = Path("runs")
    path, had_root = root / stem, root.exists()
    for n in itertools.count(2):
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            path = root / f"{stem}-{n}"
        except OSError as error:
            raise files.cannot_write(path, error) from error
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):  # not empty, as it should be
            path.rmdir()
            if not had_root:
                root.rmdir()
