"""Where data sets are on this machine.

One root folder holds them all, each in the folder its official archive unpacks to:

    ROOT/mnist/                        train-images-idx3-ubyte[.gz] and its three companions
    ROOT/cifar-10-batches-bin/         or ROOT/cifar-10-batches-py/
    ROOT/speech_commands_v0.01/        and, or, ROOT/speech_commands_v0.02/

The root is `data_dir` where it is given, else $ASKEW_DATA, else the user's cache folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from askew.core.errors import AskewError
from askew.core.registry import Spec

VARIABLE = "ASKEW_DATA"
PATHS = ("path", "like")  # arguments of data that name files and folders


def data_root(data_dir: str | Path | None = None) -> Path:
    """The folder that holds the data sets (it need not exist yet)."""
    if data_dir is not None:
        return Path(os.path.expanduser(data_dir))
    if os.environ.get(VARIABLE):
        return Path(os.path.expanduser(os.environ[VARIABLE]))
    return cache_folder()


def cache_folder() -> Path:
    """The folder for files a program can fetch again, by the custom of the operating system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(base) / "askew" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "askew"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "askew"


def find_folder(name: str, folders: Sequence[str], data_dir: str | Path | None = None) -> Path:
    """The first of `folders` that exists under the root; else an error that says how to get the data set."""
    root = data_root(data_dir)
    for folder in folders:
        if os.path.isdir(root / folder):
            return root / folder
    raise AskewError(f"{name}: no folder {' or '.join(folders)} in {root} ({_chosen(data_dir)}); "
                     f"{remedy(name, data_dir)}")


def missing_file(name: str, file: str, folder: Path, data_dir: str | Path | None = None) -> AskewError:
    """The error for one file that a data set's folder lacks."""
    return AskewError(f"{name}: no file {file} in {folder}; {remedy(name, data_dir)}")


def remedy(name: str, data_dir: str | Path | None = None) -> str:
    """How to get a data set, as the last words of an error."""
    where = "" if data_dir is None else f" --data-dir {data_dir}"
    return f"get it with 'askew data get {name}{where}'"


def _chosen(data_dir: str | Path | None) -> str:
    if data_dir is not None:
        return "the data folder given"
    if os.environ.get(VARIABLE):
        return f"from ${VARIABLE}"
    return f"the cache folder; set ${VARIABLE} or --data-dir to look elsewhere"


def below(folder: str | Path, spec: Spec) -> Spec:
    """Data of which the paths that are not whole lie below a folder.

    Example:
        >>> str(below("/data", Spec("table", {"path": "visits.csv", "label": "ill"})))
        "table(path='/data/visits.csv', label='ill')"
    """
    paths = {name: os.path.join(folder, os.path.expanduser(value)) for name, value in spec.args.items()
             if name in PATHS and isinstance(value, str)}
    return spec.with_args(**paths)
