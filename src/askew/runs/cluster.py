"""Many runs over the machines of a Ray cluster (extra `ray`): groups of configurations as Ray's tasks.

A task is a call of the driver with a part of the configurations, which train together on the device that Ray gives it.
Ray does a task again whose process or machine is lost; what has a run folder goes on from its checkpoint then. Run
folders are written by the tasks, so that all machines must see them under the same path.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError, first_line
from askew.core.interrupt import shielded
from askew.rounds.record import Record
from askew.runs.configuration import Configuration, Means
from askew.runs.result import Result

LOCAL = "local"  # in place of an address: a Ray of one's own on this machine
LOOPBACK = "127.0.0.1"
RETRIES = 3  # of a task whose process or machine is lost
STORE_BYTES = 200_000_000  # for objects, of a Ray of one's own: results without folders
POLL_S = 0.2
ANSWER_S = 5.0  # for a cluster to answer at its address
SAVE_S = 60.0  # for tasks that are stopped to save what they have
Part = Sequence[tuple[int, Configuration]]  # with their numbers
OnPart = Callable[[Part, list[Result] | Exception], None]


class Cluster:
    """A Ray cluster while a block lasts.

    Args:
        address: `HOST:PORT` of a running one, "auto" for the one of this machine, "local" for one of one's own.
        imports: modules with pieces of one's own, which its machines must be able to import, too.
    """

    def __init__(self, address: str = LOCAL, imports: Sequence[str] = ()) -> None:
        self.address, self.imports = address, tuple(imports)
        self._ray: Any = None

    def __enter__(self) -> Cluster:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # and warn of a change to come
        try:
            import ray
        except ImportError:
            raise AskewError("--ray needs Ray, which is not installed; pip install 'askew[ray]'") from None
        _check_answers(self.address, ray.util.get_node_ip_address())
        local = {"num_cpus": os.cpu_count(), "include_dashboard": False, "object_store_memory": STORE_BYTES,
                 "_node_ip_address": LOOPBACK}
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, namespace="askew",
                     **(local if self.address == LOCAL else {"address": self.address}))
        except Exception as error:  # of many kinds, by what is wrong
            raise AskewError(f"--ray {self.address}: no Ray cluster can be used there: {first_line(error)}; start one "
                             "with ray start --head, or write --ray local") from None
        for number, handler in handlers.items():  # Ray has put its own in their place
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)
        self._ray = ray
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def slots(self, device: str) -> int:
        """How many tasks it can do at once."""
        kind = "CPU" if device == "cpu" else "GPU"
        number = int(self._ray.cluster_resources().get(kind, 0))
        if number < 1:
            raise AskewError(f"--ray {self.address}: no machine of the cluster has a {kind} to give; take another "
                             f"device than {device!r}")
        return number

    def train(self, parts: Sequence[Part], means: Means, on_round: Callable[[int, Record], None], on_part: OnPart,
              check_time: Callable[[], None]) -> None:
        """Train parts of the configurations, as many at once as there are devices.

        On Ctrl-C, tasks save what they have before it goes on.

        Args:
            on_round: called with each round's record, of each configuration once, whatever is done again.
            on_part: called with a part that is over, and what came of it.
            check_time: raises KeyboardInterrupt where it is time to stop.
        """
        ray = self._ray
        on_gpu = means.device != "cpu"
        folders = sorted({str(c.path.absolute().parent) for part in parts for _, c in part
                          if c.path is not None and c.path.parent.is_dir()})
        ears = _ears(ray)
        heard = _Heard(ray, ears, on_round)
        task = ray.remote(num_cpus=0 if on_gpu else 1, num_gpus=1 if on_gpu else 0, max_retries=RETRIES)(_work)
        means = replace(means, data_dir=means.data_dir or os.environ.get("ASKEW_DATA"))
        waiting = {task.remote(_sent(part), means, self.imports, os.getcwd(), folders, ears): part for part in parts}
        try:
            while waiting:
                check_time()
                done, _ = ray.wait(list(waiting), timeout=POLL_S)
                heard.tell()
                for ref in done:
                    self._over(waiting.pop(ref), ref, heard, on_part)
        except KeyboardInterrupt:
            with shielded():
                for ref in waiting:
                    ray.cancel(ref)
                until = time.monotonic() + SAVE_S
                while waiting and time.monotonic() < until:
                    for ref in ray.wait(list(waiting), timeout=POLL_S)[0]:
                        self._over(waiting.pop(ref), ref, heard, on_part)
            raise
        finally:
            for ref in waiting:
                ray.cancel(ref, force=True)
            ray.kill(ears)

    def _over(self, part: Part, ref: Any, heard: _Heard, on_part: OnPart) -> None:
        outcome = _outcome(self._ray, ref)
        if isinstance(outcome, list):
            for (i, _), result in zip(part, outcome, strict=True):
                for record in result.records:
                    heard.take(i, record)
        if outcome is not None:
            on_part(part, outcome)


def _check_answers(address: str, machine: str) -> None:
    """An address that nobody listens at is refused at once; Ray would try for minutes.

    Args:
        machine: this machine's own address, which Ray takes in place of 127.0.0.1.
    """
    host, _, port = address.rpartition(":")
    host = machine if host in (LOOPBACK, "localhost") else host
    if address in (LOCAL, "auto"):
        return
    if not host or not port.isdigit() or "/" in address:
        raise AskewError(f"--ray: {address!r} is no address; write HOST:PORT, auto for the cluster of this machine, or "
                         "local for one of its own")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise AskewError(f"--ray {address}: nothing answers at {host}:{port} "
                         f"({getattr(error, 'strerror', None) or error}); start a cluster with ray start --head, or "
                         "write --ray local") from None


def _outcome(ray: Any, ref: Any) -> list[Result] | Exception | None:
    """Results, or the error that the task ended with: askew's own, or that it was lost more often than it is tried;
    nothing of one that was stopped before it began."""
    try:
        return ray.get(ref)
    except ray.exceptions.TaskCancelledError:
        return None
    except ray.exceptions.RayTaskError as error:
        return error.cause if isinstance(error.cause, Exception) else error
    except ray.exceptions.RayError as error:
        return AskewError(f"its task was lost {RETRIES + 1} times: {first_line(error)}")


def _sent(part: Part) -> list[tuple[int, dict[str, Any], str]]:
    """Configurations as what any machine can read: recipes as text."""
    return [(i, {"path": None if c.path is None else str(c.path.absolute()), "go_on": c.go_on, "retry": c.retry,
                 "siblings": c.siblings}, c.recipe.to_toml()) for i, c in part]


def _work(part: Sequence[tuple[int, dict[str, Any], str]], means: Means, imports: Sequence[str], cwd: str,
          folders: Sequence[str], ears: Any) -> list[Result]:
    """A task, on some machine of the cluster."""
    from askew.core.recipe import Recipe
    from askew.runs.driver import drive

    for folder in folders:
        if not Path(folder).is_dir():
            raise AskewError(f"--ray: the machine {platform.node()} does not see {folder!r}; name a folder on a disk "
                             "that all machines of the cluster share, under the same path")
    if cwd not in sys.path:
        sys.path.append(cwd)
    for name in imports:
        importlib.import_module(name)
    configurations = [Configuration(Recipe.from_toml(text), **{**given, "path": given["path"] and Path(given["path"])})
                      for _, given, text in part]
    news: list[tuple[int, Record]] = []
    told = time.monotonic()

    def on_round(i: int, record: Record, recipe: Recipe) -> None:
        nonlocal told
        news.append((part[i][0], record))
        if time.monotonic() - told >= POLL_S:
            ears.hear.remote(list(news))
            news.clear()
            told = time.monotonic()

    return drive(configurations, means, keep=False, on_round=on_round)


def _ears(ray: Any) -> Any:
    """A process on this machine that takes down what tasks say of their rounds."""

    class Ears:
        """Made here, so that its process need not import askew."""

        def __init__(self) -> None:
            self.news: list[Any] = []

        def hear(self, news: list[Any]) -> None:
            self.news += news

        def said(self) -> list[Any]:
            news, self.news = self.news, []
            return news

    node = ray.get_runtime_context().get_node_id()
    beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=beside)(Ears).remote()


class _Heard:
    """Rounds as tasks tell of them, each once: a task that is done again tells of its first rounds again."""

    def __init__(self, ray: Any, ears: Any, on_round: Callable[[int, Record], None]) -> None:
        self._ray, self._ears, self._on_round = ray, ears, on_round
        self._last: dict[int, int] = {}

    def tell(self) -> None:
        for i, record in self._ray.get(self._ears.said.remote()):
            self.take(i, record)

    def take(self, i: int, record: Record) -> None:
        if record["round"] > self._last.get(i, 0):
            self._last[i] = record["round"]
            self._on_round(i, record)
