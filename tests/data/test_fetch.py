"""Downloads from a server on this machine: whole, wrong, cut short, on a full disk."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from askew.data import downloads as published
from askew.data import load
from askew.data.downloads import find_data_set
from askew.data.fetch import fetch

pooch = pytest.importorskip("pooch")


class Server(ThreadingHTTPServer):
    """Serves `files`; claims `extra` bytes more than it sends, as a connection does that is cut midway."""

    files: dict[str, bytes]
    extra = 0
    requests: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        self.server.requests.append(name)
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + self.server.extra))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    server = Server(("127.0.0.1", 0), Handler)
    server.files, server.requests = {}, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def offer(server, monkeypatch):
    """Offer files under the name of a data set: the catalogue expects exactly their SHA-256."""

    def publish(name, files):
        server.files.update(files)
        source = find_data_set(name)
        base = f"http://127.0.0.1:{server.server_address[1]}/some/folder"
        hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
        downloads = tuple(replace(d, base_url=base, sha256=hashes[d.file], size=len(files[d.file]))
                          for d in source.downloads)
        changed = replace(source, downloads=downloads, unpacked=1_000_000)
        all_sets = tuple(changed if s.name == name else s for s in published.DATA_SETS)
        monkeypatch.setattr(published, "DATA_SETS", all_sets)

    return publish


def tar(folder: Path, prefix: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(folder, arcname=prefix)
    return buffer.getvalue()


def everything_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else []


@pytest.fixture
def mnist_offered(mnist_folder, offer):
    files = {}
    for path in (mnist_folder / "mnist").iterdir():
        packed = path.read_bytes() if path.suffix == ".gz" else gzip.compress(path.read_bytes())
        files[path.name.removesuffix(".gz") + ".gz"] = packed
    offer("mnist", files)
    return files


@pytest.fixture
def cifar_offered(cifar_folder, offer):
    offer("cifar10", {"cifar-10-binary.tar.gz": tar(cifar_folder / "cifar-10-batches-bin", "cifar-10-batches-bin")})


@pytest.fixture
def root(tmp_path):
    return tmp_path / "new" / "root"


def test_single_files(mnist_offered, server, root):
    assert fetch("mnist", root) == root / "mnist"
    assert everything_in(root) == sorted(["mnist", *(f"mnist/{name}" for name in mnist_offered)])
    assert len(load("mnist", root).train) == 20
    server.requests.clear()
    assert fetch("mnist", root) == root / "mnist"
    assert server.requests == []  # it is there: nothing is downloaded again


def test_only_what_is_missing_is_downloaded(mnist_offered, server, root):
    fetch("mnist", root)
    (root / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    server.requests.clear()
    fetch("mnist", root)
    assert server.requests == ["t10k-images-idx3-ubyte.gz"]


def test_an_archive_that_holds_its_folder(cifar_offered, root):
    assert fetch("cifar10", root) == root / "cifar-10-batches-bin"
    assert sorted(path.name for path in root.iterdir()) == ["cifar-10-batches-bin"]
    assert len(load("cifar10", root).train) == 60


def test_an_archive_of_loose_content(speech_folder, offer, root):
    offer("speech_commands_v0.01", {"speech_commands_v0.01.tar.gz": tar(speech_folder / "speech_commands_v0.01", ".")})
    assert fetch("speech_commands", root) == root / "speech_commands_v0.01"  # the short name means version 0.01
    assert len(load("speech_commands", root).test) == 10


def test_a_mirror_replaces_the_address(mnist_offered, server, monkeypatch, root):
    source = find_data_set("mnist")
    dead = tuple(replace(d, base_url="http://127.0.0.1:9") for d in source.downloads)
    monkeypatch.setattr(published, "DATA_SETS", (replace(source, downloads=dead),))
    fetch("mnist", root, mirror=f"http://127.0.0.1:{server.server_address[1]}/")
    assert len(load("mnist", root).train) == 20


def test_progress_goes_to_stderr(mnist_offered, root, capsys):
    pytest.importorskip("tqdm")
    fetch("mnist", root, progress=True)
    captured = capsys.readouterr()
    assert "100%" in captured.err
    assert captured.out == ""


def test_a_wrong_checksum(mnist_offered, server, root, refused):
    server.files["train-labels-idx1-ubyte.gz"] = b"something else"
    with refused("train-labels-idx1-ubyte.gz: the SHA-256 is not the expected [0-9a-f]{64}; nothing was kept"):
        fetch("mnist", root)
    assert everything_in(root) == []


def test_a_connection_cut_midway(cifar_offered, server, root, refused):
    server.extra = 1_000
    with refused(r"cannot download http://127.0.0.1:\d+/some/folder/cifar-10-binary.tar.gz \(.+\); nothing was kept"):
        fetch("cifar10", root)
    assert everything_in(root) == []


def test_no_such_file_and_no_such_server(mnist_offered, server, root, refused):
    del server.files["t10k-labels-idx1-ubyte.gz"]
    with refused("cannot download .*t10k-labels-idx1-ubyte.gz .404"):
        fetch("mnist", root)
    assert everything_in(root) == []
    with refused(r"cannot download http://127.0.0.1:9/.*refused"):
        fetch("mnist", root, mirror="http://127.0.0.1:9")
    with refused("cannot download gopher://x/"):
        fetch("mnist", root, mirror="gopher://x")
    assert everything_in(root) == []


def write_half_then(error):
    def download(self, url, output_file, pooch, check_only=False):
        Path(output_file).write_bytes(b"half")
        raise error

    return download


def test_a_full_disk_while_downloading(mnist_offered, monkeypatch, root, refused):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", write_half_then(full))
    with refused("the disk of .* is full; mnist needs"):
        fetch("mnist", root)
    assert everything_in(root) == []


def test_a_full_disk_while_unpacking(cifar_offered, monkeypatch, root, refused):
    def extract(self, path, **options):
        (Path(path) / "half").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extractall", extract)
    with refused("the disk of .* is full; cifar10 needs"):
        fetch("cifar10", root)
    assert everything_in(root) == []


def test_too_little_space_is_seen_before_anything_is_downloaded(cifar_offered, server, monkeypatch, root, refused):
    monkeypatch.setattr(published, "DATA_SETS", (replace(find_data_set("cifar10"), unpacked=10**18),))
    with refused("cifar10 needs 1,000,000,000,000 MB in .*, [0-9,]+ MB are free"):
        fetch("cifar10", root)
    assert server.requests == []


def test_an_interrupt_leaves_nothing(mnist_offered, monkeypatch, root):
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", write_half_then(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        fetch("mnist", root)
    assert everything_in(root) == []


def test_a_root_that_is_a_file(mnist_offered, tmp_path, refused):
    (tmp_path / "file").write_text("")
    with refused("cannot write to .*file .*; choose another --data-dir"):
        fetch("mnist", tmp_path / "file")


def test_corrupt_archives(cifar_folder, offer, root, refused):
    whole = tar(cifar_folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
    offer("cifar10", {"cifar-10-binary.tar.gz": whole[: len(whole) // 2]})
    with refused("cifar-10-binary.tar.gz cannot be unpacked"):
        fetch("cifar10", root)
    offer("cifar10", {"cifar-10-binary.tar.gz": b"no archive"})
    with refused("cifar-10-binary.tar.gz cannot be unpacked"):
        fetch("cifar10", root)
    offer("cifar10", {"cifar-10-binary.tar.gz": tar(cifar_folder / "cifar-10-batches-bin", "another-name")})
    with refused("holds no folder cifar-10-batches-bin"):
        fetch("cifar10", root)
    assert everything_in(root) == []


def test_an_archive_cannot_write_outside_its_folder(cifar_folder, offer, root, refused):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("../../escaped")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    offer("cifar10", {"cifar-10-binary.tar.gz": buffer.getvalue()})
    with refused("cannot be unpacked .*outside"):
        fetch("cifar10", root)
    assert everything_in(root.parent) == ["root"]


def test_a_folder_of_the_user_is_never_replaced(cifar_offered, root, refused):
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    (root / "cifar-10-batches-bin" / "mine.txt").write_text("precious")
    with refused("exists but is not a whole cifar10; remove it"):
        fetch("cifar10", root)
    assert (root / "cifar-10-batches-bin" / "mine.txt").read_text() == "precious"


def test_unknown_names(refused, root):
    with refused("no data set 'cifar' to download; did you mean 'cifar10'"):
        fetch("cifar", root)


def test_the_catalogue_is_complete():
    for source in published.DATA_SETS:
        assert source.size > 0
        for download in source.downloads:
            assert len(bytes.fromhex(download.sha256)) == 32
            assert download.base_url.startswith("http")
