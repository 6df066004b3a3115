"""Damaged files, hundreds for every reader: a value or one line, never a traceback, a hang or a full memory.

200 cases each; with ASKEW_LONG=1 10,000, in processes of their own. One case by itself:
`ASKEW_CASE=17 pytest tests/fuzz -k npz`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from fuzzing import long
from fuzzing.reader import Reader, Trial, outcome
from fuzzing.readers import READERS

pytestmark = pytest.mark.slow  # whole runs: tens of them

LONG = os.environ.get("ASKEW_LONG") == "1"
CASES = [int(os.environ["ASKEW_CASE"])] if "ASKEW_CASE" in os.environ else range(200)
every_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def trial(reader: Reader, tmp_path: Path) -> Trial:
    (tmp_path / "files").mkdir()
    return Trial(reader, tmp_path / "files")


@every_reader
def test_good_files_are_read(reader: Reader, tmp_path: Path) -> None:
    for path in trial(reader, tmp_path).good:
        assert outcome(reader, path).kind == "ok"


@every_reader
def test_damaged_files_are_a_value_or_one_line(reader: Reader, tmp_path: Path) -> None:
    if LONG and len(CASES) > 1:
        assert long.fuzz(reader, long.CASES)["failed"] == []
        return
    cases = trial(reader, tmp_path)
    kinds: Counter[str] = Counter()
    for number in CASES:
        found = cases.run(number)
        kinds[found.kind] += 1
        assert found.kind != "raw", f"{found.says}\nagain: ASKEW_CASE={number} pytest tests/fuzz -k '{reader.name}'"
    if len(CASES) > 1 and not reader.always_ok:
        assert min(kinds["ok"], kinds["refused"]) >= 3, kinds  # damage that is too weak or too strong shows nothing


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("a-pipe"))
    path.symlink_to(path.with_name("a-pipe"))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nothing(path: Path) -> None:
    """No file at all."""


def empty(path: Path) -> None:
    path.write_bytes(b"")


def unreadable(path: Path) -> None:
    path.write_bytes(b"secret")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")


@pytest.mark.parametrize("special", [pipe, folder, loop, dangling, link_to_pipe, device, nothing, empty, unreadable],
                         ids=lambda make: make.__name__)
@every_reader
def test_what_is_no_file_is_one_line(reader: Reader, special, tmp_path: Path) -> None:
    """In place of each good file; where a folder is read, its other files stay."""
    cases = trial(reader, tmp_path)
    for path in list(cases.good)[:: max(1, len(cases.good) // 3)]:
        path.unlink()
        special(path)
        found = outcome(reader, path)
        wanted = {"ok"} if reader.always_ok else {"refused"}
        if (reader.name, special) in (("images", folder), ("images", nothing), ("list of clips", empty),
                                      ("journal", empty)):
            wanted = {"ok"}  # the other images are left; a list of none, a journal of none
        assert found.kind in wanted, found
        break


@every_reader
def test_names_that_cannot_be_are_one_line(reader: Reader, tmp_path: Path) -> None:
    if reader.name in ("features", "node's memory"):
        pytest.skip("its name is made, not given")
    for name in ("a\0b.npz", "x" * 300 + ".csv", "a\nb\x1b[31m.parquet", "\udcff.gz"):
        assert outcome(reader, tmp_path / name).kind == ("ok" if reader.always_ok else "refused")
