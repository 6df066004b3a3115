import sys
from pathlib import Path

import pytest

from askew.data.locate import cache_folder, data_root, find_folder


def test_the_argument_beats_the_variable_beats_the_cache(monkeypatch, tmp_path):
    assert data_root() == cache_folder()
    monkeypatch.setenv("ASKEW_DATA", str(tmp_path / "variable"))
    assert data_root() == tmp_path / "variable"
    assert data_root("~/argument") == Path.home() / "argument"


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("ASKEW_DATA", "")
    assert data_root() == cache_folder()


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_cache_folder_is_pooch_s(monkeypatch, platform, tmp_path):
    pooch = pytest.importorskip("pooch")
    if platform == sys.platform:
        assert cache_folder() == Path(pooch.os_cache("askew"))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert "askew" in cache_folder().parts


def test_missing_data_say_where_and_how(monkeypatch, refused, tmp_path):
    with refused(rf"mnist: no folder mnist in {tmp_path} \(the data folder given\); get it with "
                 rf"'askew data get mnist --data-dir {tmp_path}'"):
        find_folder("mnist", ["mnist"], tmp_path)
    with refused(r"the cache folder; set \$ASKEW_DATA or --data-dir to look elsewhere.*'askew data get mnist'"):
        find_folder("mnist", ["mnist"])
    monkeypatch.setenv("ASKEW_DATA", str(tmp_path))
    with refused(r"from \$ASKEW_DATA"):
        find_folder("mnist", ["mnist"])
