"""What goes wrong with a client costs its update, one line and no more; what goes wrong with the server costs a resume.

Real ServerApp loop and ClientApps; faults are put between the client's reply and the server.
"""

from __future__ import annotations

import gc
import io
import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from local_grid import Fault, LocalGrid, deployed, late, settings_of_parts
from numpy.lib import format as npy

import askew
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import train_job
from askew.flower.messages import TRAIN

pytestmark = pytest.mark.slow  # whole runs: tens of them

FOUR = Recipe(population="dirichlet(clients=4, alpha=0.5)", rounds=2, batch_size=40)
BAD = 999  # node of client c1


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Lines of the log."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Keep()
    logging.getLogger("flwr").addHandler(handler)
    yield lines
    logging.getLogger("flwr").removeHandler(handler)


def in_training(change: Any, round: int | None = None) -> Fault:
    """A fault of replies to training alone, in one round or in all."""

    def fault(message: Message, reply: Message) -> Any:
        asked = message.metadata.message_type == TRAIN
        return change(message, reply) if asked and round in (None, message.content["askew"]["round"]) else reply

    return fault


def arrays(change: Any) -> Any:
    """A reply of which each array is changed."""

    def changed(message: Message, reply: Message) -> Message:
        reply.content["message"] = ArrayRecord({name: change(a) for name, a in reply.content["message"].items()})
        return reply

    return changed


def with_records(**records: Any) -> Any:
    def changed(message: Message, reply: Message) -> Message:
        for name, record in records.items():
            if record is None:
                del reply.content[name]
            else:
                reply.content[name] = record
        return reply

    return changed


def broken(message: Message, reply: Message) -> Any:
    return ValueError("a reply that Flower cannot put together")


def failed(message: Message, reply: Message) -> Message:
    return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "ZeroDivisionError"), reply_to=message)


def cut(a: Array) -> Array:
    return Array(a.dtype, a.shape, a.stype, a.data[: len(a.data) // 2])


def grown(a: Array) -> Array:
    """Numpy's header promises a terabyte."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**38,)})
    return Array(a.dtype, a.shape, a.stype, file.getvalue() + bytes(4))


FAULTS = {
    "NaN": (arrays(lambda a: Array(np.full_like(a.numpy(), np.nan))), "not_finite"),
    "NaN loss": (with_records(numbers=MetricRecord({"loss": float("nan"), "examples": 359})), "not_finite"),
    "wrong shapes": (arrays(lambda a: Array(a.numpy().ravel()[:-1].copy())), "wrong_form"),
    "wrong type": (arrays(lambda a: Array(a.numpy().astype(np.float64))), "wrong_form"),
    "truncated": (arrays(cut), "wrong_form"),
    "a promise of more than there is": (arrays(grown), "wrong_form"),
    "another name": (with_records(message=ArrayRecord({"update/x": Array(np.zeros(3, np.float32))})), "wrong_form"),
    "no message": (with_records(message=None), "wrong_form"),
    "no numbers": (with_records(numbers=None), "wrong_form"),
    "a record of another kind": (with_records(message=ConfigRecord({"a": 1})), "wrong_form"),
    "nothing at all": (lambda message, reply: Message(RecordDict(), reply_to=message), "wrong_form"),
    "another size": (with_records(numbers=MetricRecord({"loss": 1.0, "examples": 10**9})), "wrong_size"),
    "far too long": (arrays(lambda a: Array(1000 * a.numpy())), "too_long"),
    "its program failed": (failed, "failed"),
    "a reply that cannot be put together": (broken, "unreadable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_costs_one_update_and_one_line(tmp_path: Path, said: list[str], fault: str) -> None:
    change, reason = FAULTS[fault]
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4), {BAD: in_training(change, round=0)})
    result = deployed(tmp_path, FOUR, grid)
    first, second = result.records
    assert first["dropped"] == {reason: 1}
    assert first["dropped_clients"] == {reason: [1]}
    assert "dropped" not in second
    assert all(bool(v.isfinite().all()) for v in result.model.values())
    lines = [line for line in said if "is left out" in line]
    assert len(lines) == 1
    assert f"round 1: client c1 (node {BAD}) is left out: " in lines[0]
    ends = [line.split(", ", 1)[1] for line in said if " of 2: accuracy " in line]
    assert ends == ["4 clients, 1 of them left out", "4 clients"]


def test_what_is_left_out_is_left_out_of_everything(tmp_path: Path) -> None:
    """The round is that of the other three: the mean of their updates, by their examples."""
    recipe = FOUR.replace(rounds=1)
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4), {BAD: in_training(FAULTS["NaN"][0])})
    result = deployed(tmp_path, recipe, grid)
    task = askew.run(recipe, engine="sequential").simulation.task
    sizes = {k: int(task.population.sizes[k]) for k in (0, 2, 3)}
    lane = Lane(task, {0: task.fresh}, [], 0)
    for name, start in task.fresh.params.items():
        mean = sum(size * train_job(lane, Job(0, k), task.module).updates[name][0].double()
                   for k, size in sizes.items()) / sum(sizes.values())
        torch.testing.assert_close(result.model[name], start + mean.float(), atol=1e-7, rtol=1e-6)


@pytest.mark.slow
def test_a_slow_client_is_late_and_its_reply_counts_in_no_round(tmp_path: Path, said: list[str]) -> None:
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4), {BAD: in_training(late(3.0), round=0)})
    result = deployed(tmp_path, FOUR, grid, deadline=2.0)
    assert result.records[0]["dropped_clients"] == {"late": [1]}
    assert "no reply within 2 s" in next(line for line in said if "is left out" in line)


def test_an_early_error_is_not_final(tmp_path: Path) -> None:
    """Flower says that a message is not there while its parts are still on their way."""
    def fault(message: Message, reply: Message) -> Any:
        grid._replies.setdefault(message.metadata.message_id, []).append(
            Message(Error(ErrorCode.MESSAGE_UNAVAILABLE, "not there yet"), reply_to=message))
        grid.pulled.wait(5.0)
        return reply

    class Watched(LocalGrid):
        pulled = threading.Event()

        def pull_messages(self, ids: Any) -> Any:
            found = super().pull_messages(ids)
            if any(reply.has_error() for reply in found):
                self.pulled.set()
            return found

    grid = Watched(tmp_path / "nodes", settings_of_parts(4), {BAD: in_training(fault, round=0)})
    result = deployed(tmp_path, FOUR, grid)
    assert grid.pulled.is_set()
    assert all("dropped" not in record for record in result.records)


def test_too_few_clients_stop_the_run_which_goes_on_when_they_are_back(tmp_path: Path) -> None:
    recipe = FOUR.replace(rounds=3, client=["correct_drift()", "sgd(lr=0.1)"],
                          server=["mean('uniform')", "update_control()"])
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4))
    for node in (BAD, BAD - 1):
        grid.faults[node] = in_training(failed, round=1)
    with pytest.raises(AskewError, match=r"round 2: 2 of 4 clients sent .* min-clients is 3; .*resume"):
        deployed(tmp_path, recipe, grid, min_clients=3)
    grid.faults.clear()
    result = deployed(tmp_path, recipe, grid, min_clients=3, resume=True)
    theirs = askew.run(recipe, engine="sequential")
    # Two clients had trained for the round that came to nothing: they go on from what they remembered before it.
    assert [r["accuracy"] for r in result.records] == [r["accuracy"] for r in theirs.records]
    assert all(torch.equal(result.model[name], v) for name, v in theirs.model.items())


class Killed(BaseException):
    """The server's end, at any point."""


@pytest.mark.slow
@pytest.mark.parametrize("after", [5, 8, 12])
def test_a_server_that_is_killed_goes_on_to_the_same_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           after: int) -> None:
    """Killed after so many messages: between rounds, or in the middle of one; nothing is tidied up on the way out."""
    recipe = FOUR.replace(rounds=3, client=["correct_drift()", "sgd(lr=0.1)"],
                          server=["mean('uniform')", "update_control()"])

    class Dying(LocalGrid):
        def pull_messages(self, ids: Any) -> Any:
            if len(self.sent) >= after:
                raise Killed
            return super().pull_messages(ids)

    with monkeypatch.context() as patch:
        patch.setattr("askew.runs.running.Running.end", lambda *args, **kwargs: None)  # a kill leaves no time for it
        with pytest.raises(Killed):
            deployed(tmp_path, recipe, Dying(tmp_path / "nodes", settings_of_parts(4)))
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4))
    gc.collect()  # the run folder's lock goes with the process; here with what is left of the run
    result = deployed(tmp_path, recipe, grid, resume=True)
    theirs = askew.run(recipe, engine="sequential")
    assert [r["accuracy"] for r in result.records] == [r["accuracy"] for r in theirs.records]


def test_a_client_that_has_lost_its_memory_is_noticed(tmp_path: Path, said: list[str]) -> None:
    recipe = FOUR.replace(rounds=3, client=["sgd(lr=0.1, momentum=0.9, keep_momentum=true)"])

    def forget(message: Message, reply: Message) -> Message:
        shutil.rmtree(tmp_path / "nodes" / str(BAD) / "memory")
        return reply

    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4), {BAD: in_training(forget, round=0)})
    result = deployed(tmp_path, recipe, grid)
    assert [line for line in said if "lost its memory" in line] == [
        f"askew: round 2: client c1 (node {BAD}) has lost its memory of its round 1; it started as in its first round"]
    assert len(result.records) == 3
    assert "dropped" not in result.records[1]


def test_nobody_there_is_said_after_the_wait(tmp_path: Path) -> None:
    with pytest.raises(AskewError, match=r"0 of at least 2 clients .* after 0.2 s"):
        deployed(tmp_path, FOUR, LocalGrid(tmp_path / "nodes", {}), wait=0.2)
    assert not (tmp_path / "run").exists()


def test_fewer_than_were_waited_for_are_enough_if_they_are_the_fewest(tmp_path: Path) -> None:
    grid = LocalGrid(tmp_path / "nodes", settings_of_parts(4))
    result = deployed(tmp_path, FOUR.replace(rounds=1), grid, clients=9, min_clients=3, wait=1.0)
    assert result.records[0]["clients"] == 4
