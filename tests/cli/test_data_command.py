"""`askew data` as a user calls it: the installed entry point, its output, its exit codes."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from askew.cli.app import main
from askew.data import downloads as published


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for variable in ("ASKEW_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def askew(monkeypatch, capsys):
    """Run `askew ARGUMENTS`: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["askew", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A web server with a miniature MNIST whose hashes the catalogue expects; gives its address."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    downloads = []
    for download in published.find_data_set("mnist").downloads:
        count = 20 if download.file.startswith("train") else 10
        labels = (np.arange(count) % 10).astype(np.uint8)
        array = np.zeros((count, 2, 2), np.uint8) if "images" in download.file else labels
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        content = gzip.compress(header + array.tobytes())
        (folder / download.file).write_bytes(content)
        downloads.append(replace(download, sha256=hashlib.sha256(content).hexdigest(), size=len(content)))
    changed = replace(published.find_data_set("mnist"), downloads=tuple(downloads))
    monkeypatch.setattr(published, "DATA_SETS", (changed, *published.DATA_SETS[1:]))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_list_without_anything_but_the_digits(askew, tmp_path):
    code, out, _ = askew("data", "list", "--json", "--data-dir", tmp_path)
    assert code == 0
    listing = json.loads(out)
    assert listing["root"] == str(tmp_path)
    assert [row["name"] for row in listing["data"] if row["present"]] == ["digits"]
    names = [row["name"] for row in listing["data"]]
    assert names == ["digits", "mnist", "cifar10", "speech_commands_v0.01", "speech_commands_v0.02"]
    for row in listing["data"]:
        assert set(row) == {"name", "present", "where", "bytes", "download_bytes", "licence", "origin"}


def test_the_table_for_people(askew, tmp_path):
    code, out, _ = askew("data", "list", "--data-dir", tmp_path)
    assert code == 0
    assert "embedded" in out
    assert "2,428.9" in out
    assert "CC BY 4.0" in out


def test_get_then_list_then_verify(askew, mirror, tmp_path):
    root = tmp_path / "data"
    code, out, err = askew("data", "get", "mnist", "--data-dir", root, "--mirror", mirror, "--json")
    assert code == 0
    row = json.loads(out)
    assert (row["name"], row["present"], row["where"]) == ("mnist", True, str(root / "mnist"))
    assert row["bytes"] == row["download_bytes"] == sum(f.stat().st_size for f in (root / "mnist").iterdir())
    assert "mnist" in err  # what is being done goes to stderr
    listing = json.loads(askew("data", "list", "--data-dir", root, "--json")[1])["data"]
    assert [row["name"] for row in listing if row["present"]] == ["digits", "mnist"]
    code, out, err = askew("data", "verify", "mnist", "--data-dir", root)
    assert code == 2  # a miniature is not MNIST
    assert out == ""
    assert err.startswith("askew: ")
    assert err.count("\n") == 1


def test_the_variable_names_the_folder(askew, mirror, monkeypatch, tmp_path):
    monkeypatch.setenv("ASKEW_DATA", str(tmp_path / "by variable"))
    assert askew("data", "get", "mnist", "--mirror", mirror)[0] == 0
    assert (tmp_path / "by variable" / "mnist" / "train-images-idx3-ubyte.gz").is_file()


def test_digits_need_no_download(askew):
    code, out, _ = askew("data", "get", "digits")
    assert (code, out) == (0, "digits: embedded\n")
    code, out, _ = askew("data", "verify", "digits", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)


@pytest.mark.parametrize(("arguments", "message"), [
    (["get", "imagenet"], "no data set 'imagenet' to download; known: mnist"),
    (["verify", "mnits"], "did you mean 'mnist'?"),
    (["verify", "cifar10"], "askew data get cifar10"),
    (["get", "mnist", "--mirror", "http://127.0.0.1:9"], "cannot download http://127.0.0.1:9/train-images"),
])
def test_bad_input_is_one_line_and_code_2(askew, arguments, message):
    code, out, err = askew("data", *arguments)
    assert code == 2
    assert out == ""
    line = err.splitlines()[-1]
    assert line.startswith("askew: ")
    assert message in line


def test_no_arguments_print_help(askew):
    _, out, err = askew("data")
    assert "verify" in out + err
