"""A federation of real processes on this machine: SuperLink and SuperNodes with TLS and node keys, on loopback.

For `askew deploy try`, and to see what happens when one of them is killed. Everything lies in one folder, and every
process that was started is ended with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError
from askew.core.files import write_text
from askew.flower.library import INSTALL
from askew.runs.folders import METRICS
from askew.runs.run_folder import SUMMARY, RunFolder

START_S = 60.0  # for the SuperLink to answer, and a node to be connected
LOOK_S = 10.0, 60.0  # before Flower is first asked how a run is, and between later questions: each is a process
BACK_S = 180.0  # for a node that was killed to be let in again
END_S = 10.0  # for a process to end by itself
CONNECTED = "SuperNode ID"  # in the log of a node that was let in


class LocalFederation:
    """SuperLink and SuperNodes in processes of their own.

    Args:
        app: the app's folder, as `write_app` makes it; keys and all else are made below it.
        threads: of torch, in each client's process.
    """

    def __init__(self, app: Path, threads: int = 1) -> None:
        for tool in ("openssl", "ssh-keygen"):
            if shutil.which(tool) is None:
                raise AskewError(f"{tool} makes keys and certificates, and is not installed here; install it")
        self._app = app
        self._ports = _Ports()
        self.port = self._ports.free()
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.link: subprocess.Popen[bytes] | None = None
        self._node_ports: dict[str, int] = {}
        self._environment = {
            **os.environ, "FLWR_HOME": str(app / "flower"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": str(threads), "NO_COLOR": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",  # seconds, on the way of each message; 1 by default
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
        for command in ("flwr", "flower-superlink", "flower-supernode"):
            if shutil.which(command, path=self._environment["PATH"]) is None:
                raise AskewError(f"{command} is neither beside Python nor on the PATH; install Flower's commands, "
                                 f"{INSTALL}, and put their folder on the PATH")

    def __enter__(self) -> LocalFederation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_link(self) -> None:
        """The SuperLink; its keys are made at the first start."""
        server, home = self._app / "server", self._app / "flower"
        if not server.exists():
            self._keys("server", "localhost")
            home.mkdir(exist_ok=True)
            write_text(home / "config.toml", f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = '
                       f'"127.0.0.1:{self.port}"\nroot-certificates = {json.dumps(str(server / "ca.crt"))}\n')
        self.link = self._process("superlink", [
            "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), "--enable-supernode-auth",
            "--disable-runtime-dependency-installation", *_tls(server), "--database", str(home / "state.db")])
        _wait(lambda: _answers(self.port), START_S, "the SuperLink does not answer", self.link, self._log("superlink"))

    def add_node(self, name: str, settings: Mapping[str, Any], register: bool = True,
                 authority: Path | None = None) -> None:
        """A node with keys of its own, registered and started.

        Args:
            settings: of its node.toml.
            register: whether the server is told of its key.
            authority: whom it trusts to name the server; default: who does.
        """
        folder = self._app / "nodes" / name
        self._keys("node", name)
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"client": name, **settings}.items()]
        write_text(folder / "node.toml", "\n".join(lines) + "\n")
        if register:
            self.flwr("supernode", "register", str(folder / "key.pub"), "here")
        self._node_ports[name] = self._ports.free()
        self.start_node(name, authority)

    def start_node(self, name: str, authority: Path | None = None) -> None:
        """Start a node that has keys, again where it was stopped."""
        folder = self._app / "nodes" / name
        self.nodes[name] = self._process(name, [
            "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates",
            str(authority or self._app / "server" / "ca.crt"), "--auth-supernode-private-key", str(folder / "key"),
            "--node-config", f'settings="{folder / "node.toml"}"', "--host", "127.0.0.1", "--port",
            str(self._node_ports[name]), *_tls(folder)], FLWR_HOME=str(folder / "flower"))

    def restart_node(self, name: str) -> None:
        """Start a node that was killed, as often as it takes: Flower refuses it until its last sign of life is a minute
        old."""
        ends = time.monotonic() + BACK_S
        while True:
            before = self.lines(name).count(CONNECTED)
            self.start_node(name)
            process = self.nodes[name]
            while process.poll() is None and self.lines(name).count(CONNECTED) == before:
                time.sleep(0.2)
            if process.poll() is None:
                return
            _kill(process)  # what it had started
            if time.monotonic() > ends:
                raise AskewError(f"node {name} was not let in again within {BACK_S:g} s: {self.lines(name)[-300:]}")
            time.sleep(3.0)

    def flwr(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """A command of `flwr`; what it printed."""
        done = subprocess.run(["flwr", *arguments], cwd=self._app, env=self._environment, capture_output=True,
                              text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise AskewError(f"flwr {' '.join(arguments[:2])} failed: {' '.join(said[-3:])}")
        return done.stdout

    def run(self, config: Mapping[str, Any]) -> str:
        """Hand the app to the SuperLink; the number of the run."""
        values = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        told = self.flwr("run", ".", "here", "--format", "json", "--run-config", values)
        answer = json.loads(told[told.index("{"):])
        if not answer.get("run-id"):
            raise AskewError(f"flwr run failed: {answer.get('error-message', told)}")
        return str(answer["run-id"])

    def wait(self, run: str, out: Path, timeout_s: float, on_record: Callable[[dict[str, Any]], None] | None = None,
             rounds: int | None = None) -> list[dict[str, Any]]:
        """Wait until a run is over, or has so many rounds; its records.

        Args:
            out: its run folder.
            on_record: called with each record as it comes.
        """
        ends, told, looked, pause_s = time.monotonic() + timeout_s, 0, time.monotonic(), LOOK_S[0]
        while True:
            over = (out / SUMMARY).exists()
            records = RunFolder(out).records() if (out / METRICS).exists() else []
            for record in records[told:] if on_record else ():
                on_record(record)  # type: ignore[misc]
            told = len(records)
            if over or (rounds is not None and told >= rounds):
                return records
            if time.monotonic() > ends:
                raise AskewError(f"the run is not over after {timeout_s:g} s: {self.last_words(run)}")
            if time.monotonic() - looked > pause_s:  # it may have ended before it had a folder
                looked, pause_s = time.monotonic(), min(2 * pause_s, LOOK_S[1])
                if self.status(run).startswith("finished") and not (out / SUMMARY).exists():
                    raise AskewError(f"the run ended before its first round: {self.last_words(run)}")
            time.sleep(0.2)

    def last_words(self, run: str) -> str:
        """The last line that the server said."""
        said = [line for line in self.log_of(run).splitlines() if "askew: " in line]
        return said[-1].partition("askew: ")[2] if said else "its log says nothing"

    def status(self, run: str) -> str:
        """Of a run, in Flower's words: "running", "finished:completed", "finished:failed", ..."""
        told = self.flwr("list", "--run-id", run, "--format", "json")
        return str(json.loads(told[told.index("{"):])["runs"][0]["status"])

    def log_of(self, run: str) -> str:
        """What the server of a run has said so far."""
        return self.flwr("log", run, "here", "--show")

    def lines(self, process: str) -> str:
        """What a process has said so far."""
        return self._log(process).read_text(encoding="utf-8", errors="replace")

    def kill(self, name: str) -> None:
        """End a node at once, with all that it has started, as a power cut would."""
        _kill(self.nodes.pop(name))

    def stop(self, name: str) -> None:
        """End a node as its owner would: it takes its leave."""
        process = self.nodes.pop(name)
        started = _descendants(process.pid)
        _send(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        _kill(process, started)

    def kill_link(self) -> None:
        """Likewise for the SuperLink, and with it the server's loop."""
        assert self.link is not None
        _kill(self.link)
        self.link = None

    def close(self) -> None:
        """End all processes that were started here."""
        running = [*self.nodes.values(), *([self.link] if self.link is not None else [])]
        started = [each for process in running for each in _descendants(process.pid)]
        for process in running:
            _send(process, signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            _kill(process, started)
        self.nodes, self.link = {}, None

    def _keys(self, *arguments: str) -> None:
        done = subprocess.run(["sh", "keys.sh", *arguments], cwd=self._app, capture_output=True, text=True, timeout=60,
                              check=False)
        if done.returncode:
            raise AskewError(f"keys.sh {arguments[0]} failed: {done.stderr.strip()[-300:]}")

    def _process(self, name: str, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        with self._log(name).open("ab") as log:
            # A session of its own: what it starts is ended with it.
            return subprocess.Popen(command, cwd=self._app, env={**self._environment, **environment}, stdout=log,
                                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def _log(self, name: str) -> Path:
        folder = self._app / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"


class _Ports:
    """Ports on loopback that are free now, each given once."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def free(self) -> int:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            if port not in self._given:
                self._given.add(port)
                return port


def _tls(folder: Path) -> Iterator[str]:
    for option, file in (("ca-certfile", "ca.crt"), ("certfile", "tls.crt"), ("keyfile", "tls.key")):
        yield from (f"--ssl-{option}", str(folder / file))


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


def _wait(done: Any, seconds: float, what: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + seconds
    while not done():
        if process.poll() is not None or time.monotonic() > ends:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise AskewError(f"{what}: {' '.join(said[-2:])[-300:] or 'it says nothing'}")
        time.sleep(0.1)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill(process: subprocess.Popen[bytes], started: Sequence[tuple[int, str]] | None = None) -> None:
    """End a process at once with all that it has started: Flower starts apps in sessions of their own.

    Args:
        started: what it had started, where it may have ended since; default: what it has started now.
    """
    started = _descendants(process.pid) if started is None else started
    for pid, since in started:
        with contextlib.suppress(OSError):
            if _runs(pid, since):
                os.kill(pid, signal.SIGKILL)
    _send(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    ends = time.monotonic() + END_S
    while any(_runs(pid, since) for pid, since in started) and time.monotonic() < ends:
        time.sleep(0.05)


def _descendants(pid: int) -> list[tuple[int, str]]:
    """Number and start of what a process has started, and so on, where the system tells (/proc); elsewhere Flower's own
    watch ends them."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            about = _stat(int(entry.name))
            children.setdefault(int(about[1]), []).append((int(entry.name), about[19]))
    result, waiting = [], [pid]
    while waiting:
        started = children.get(waiting.pop(), [])
        result += started
        waiting += [number for number, _ in started]
    return result


def _runs(pid: int, since: str) -> bool:
    """Whether a process is the one that started then, and has not ended; its number may be another's by now."""
    try:
        about = _stat(pid)
        return about[19] == since and about[0] != "Z"
    except (OSError, IndexError):
        return False


def _stat(pid: int) -> list[str]:
    """What Linux says of a process behind its name: [0] its state, [1] its parent, [19] when it started."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
