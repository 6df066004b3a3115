"""Download a data set, check it, and put it in its place: all of it or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from askew.core.errors import AskewError
from askew.data.downloads import Download, Downloadable, find_data_set
from askew.data.locate import data_root
from askew.data.verify import present


def fetch(name: str, data_dir: str | Path | None = None, *, mirror: str | None = None, progress: bool = False) -> Path:
    """Download the data set unless it is there already.

    Everything is written to a temporary folder beside its place and moved there when it is complete and its SHA-256 is
    right, so that a cut connection, a full disk or Ctrl-C leave nothing behind.

    Args:
        name: one of `askew.data.downloads.DATA_SETS`.
        data_dir: folder that holds the data sets; see `askew.data.locate`.
        mirror: address of a folder with the same files, to be used instead of the official one.
        progress: whether to show a progress bar on stderr.

    Returns:
        The folder of the data set.
    """
    data_set = find_data_set(name)
    earlier = present(data_set.name, data_dir)
    if earlier is not None:
        return earlier
    root = data_root(data_dir)
    target = root / data_set.folder
    if data_set.archive is not None and target.exists():
        raise AskewError(f"{target} exists but is not a whole {data_set.name}; remove it or choose another --data-dir")
    with _disk_errors(root, data_set):
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".askew-", dir=root) as folder:
            temporary = Path(folder)
            missing = [d for d in data_set.downloads if not (target / d.file).exists()]
            _check_space(root, data_set, missing)
            files = [_download(download, temporary, mirror, progress) for download in missing]
            if data_set.archive is None:
                target.mkdir(exist_ok=True)
                for file in files:
                    os.replace(file, target / file.name)
            else:
                os.replace(_unpack(files[0], temporary, data_set), target)
    return target


def _download(download: Download, folder: Path, mirror: str | None, progress: bool) -> Path:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # it announces each file, which the progress bar does too
    url = f"{(mirror or download.base_url).rstrip('/')}/{download.file}"
    try:
        return Path(pooch.retrieve(url, f"sha256:{download.sha256}", fname=download.file, path=folder,
                                   downloader=pooch.HTTPDownloader(progressbar=progress, timeout=60)))
    except requests.RequestException as error:
        raise AskewError(f"cannot download {url} ({_reason(error)}); nothing was kept, "
                         "try again or give a --mirror") from None
    except ValueError as error:
        if "hash" not in str(error):  # an address of a kind that pooch does not know
            raise AskewError(f"cannot download {url} ({_reason(error)})") from None
        raise AskewError(f"{url}: the SHA-256 is not the expected {download.sha256}; nothing was kept, "
                         "try again or give another --mirror") from None


def _unpack(file: Path, temporary: Path, data_set: Downloadable) -> Path:
    unpacked = temporary / "unpacked"
    unpacked.mkdir()
    try:
        with tarfile.open(file, "r:gz") as archive:
            archive.extractall(unpacked, filter="data")  # refuses links and names that lead out of the folder
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise AskewError(f"{file.name} cannot be unpacked ({_reason(error)}); nothing was kept") from None
    folder = unpacked / data_set.folder if data_set.archive == "folder" else unpacked
    if not folder.is_dir():
        raise AskewError(f"{file.name} holds no folder {data_set.folder}; nothing was kept")
    return folder


def _check_space(root: Path, data_set: Downloadable, missing: list[Download]) -> None:
    needed = sum(download.size for download in missing) + (data_set.unpacked if data_set.archive else 0)
    free = shutil.disk_usage(root).free
    if free < needed:
        raise AskewError(f"{data_set.name} needs {needed / 1e6:,.0f} MB in {root}, {free / 1e6:,.0f} MB are free; "
                         "make room or choose another --data-dir")


@contextlib.contextmanager
def _disk_errors(root: Path, data_set: Downloadable) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            needed = (data_set.size + data_set.unpacked) / 1e6
            raise AskewError(f"the disk of {root} is full; {data_set.name} needs {needed:,.0f} MB, nothing was kept: "
                             "make room or choose another --data-dir") from None
        raise AskewError(f"cannot write to {root} ({error.strerror or error}); choose another --data-dir") from None


def _reason(error: Exception) -> str:
    """The innermost cause in one line: network libraries wrap it in several others and print them all."""
    inner = error
    while True:
        wrapped = getattr(inner, "reason", None) or (inner.args[0] if inner.args else None)
        if not isinstance(wrapped, Exception):
            break
        inner = wrapped
    lines = str(inner).splitlines()
    return lines[0].split("): ", 1)[-1] if lines else type(inner).__name__
