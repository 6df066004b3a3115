"""Trackers show the numbers of the run folder, and none of their troubles is the run's."""

from __future__ import annotations

import json
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import askew
from askew.cli.app import main
from askew.core.errors import AskewError
from askew.tracking import TRACKERS, Tracking, send
from askew.tracking.tracking import numbers_of

RECIPE = askew.Recipe(rounds=3, probes=["update_norms()"], evaluate_every=2)
Curves = dict[str, dict[int, float]]  # name -> round -> number


class Kept:
    """A tracker of one's own that keeps what it is told."""

    def __init__(self, fail_at: str | int | None = None) -> None:
        self.curves: Curves = {}
        self.finished: bool | None = None
        self.fail_at = fail_at

    def start(self, folder: Path, settings: Mapping[str, Any]) -> Kept:
        if self.fail_at == "start":
            raise ConnectionError("nobody there\nat all")
        self.folder, self.settings = folder, settings
        return self

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        if self.fail_at == round:
            raise OSError("the disk is full")
        for name, value in values.items():
            self.curves.setdefault(name, {})[round] = value

    def end(self, finished: bool) -> None:
        if self.fail_at == "end":
            raise TimeoutError("too late")
        self.finished = finished


def expected(folder: Path) -> Curves:
    """What a run folder's metrics say, read by hand."""
    curves: Curves = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name, value in record.items():
            for path, number in ({f"{name}/{k}": v for k, v in value.items()} if isinstance(value, dict)
                                 else {name: value}).items():
                if isinstance(number, int | float) and name != "round":
                    curves.setdefault(path, {})[record["round"]] = number
    return curves


def in_tensorboard(folder: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]}


def in_mlflow(folder: Path) -> Curves:
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("askew")
    [run] = [run for run in client.search_runs([experiment.experiment_id]) if run.info.run_name == folder.name]
    assert run.info.status == "FINISHED"
    assert run.data.params["rounds"] == "3"
    return {name: {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}
            for name in run.data.metrics}


def in_wandb(folder: Path) -> Curves:
    """From the file that `wandb sync` would send."""
    from wandb.proto import wandb_internal_pb2

    [file] = Path("wandb").glob("offline-run-*/*.wandb")
    patience = time.monotonic() + 20  # a process of its own writes the file
    while True:
        records = [wandb_internal_pb2.Record.FromString(data) for data in logged(file.read_bytes())]
        if any(record.HasField("exit") for record in records) or time.monotonic() > patience:
            break
        time.sleep(0.1)
    assert [record.exit.exit_code for record in records if record.HasField("exit")] == [0]
    assert {record.run.display_name for record in records if record.HasField("run")} == {folder.name}
    curves: Curves = {}
    for record in records:
        values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for name, value in values.items():
            if not name.startswith("_"):
                curves.setdefault(name, {})[values["_step"]] = value
    return curves


def logged(content: bytes, block: int = 32768, header: int = 7) -> Iterator[bytes]:
    """The entries of a LevelDB log: CRC, length, kind (1 whole, 2 first, 3 middle, 4 last part), data; in blocks."""
    at, parts = header, b""
    while at + header <= len(content):
        if block - at % block < header:  # no room for a header: the rest of the block is empty
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", content[at + 4:at + header])
        if at + header + length > len(content):  # still being written
            return
        parts += content[at + header:at + header + length]
        at += header + length
        if kind in (1, 4):
            yield parts
            parts = b""


READ: dict[str, Callable[[Path], Curves]] = {"tensorboard": in_tensorboard, "mlflow": in_mlflow, "wandb": in_wandb}


@pytest.fixture
def tracker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Its name, where it is installed; offline, in an empty folder."""
    pytest.importorskip(TRACKERS[request.param], reason=f"{request.param} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # its small package has no other store without a server
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return request.param


each_tracker = pytest.mark.parametrize("tracker", sorted(TRACKERS), indirect=True)


def test_there_is_a_reader_for_every_tracker() -> None:
    assert set(READ) == set(TRACKERS)


@each_tracker
def test_live_and_afterwards_show_what_the_folder_has(tracker: str, tmp_path: Path) -> None:
    plain, live = tmp_path / "plain", tmp_path / "live"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a tracker that failed
        askew.run(RECIPE, out=plain)
        with Tracking(tracker, live) as track:
            result = askew.run(RECIPE, out=live, on_round=track)
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (plain / name).read_bytes() == (live / name).read_bytes()
    wanted = expected(live)
    assert set(wanted["accuracy"]) == {2, 3}
    assert {"loss", "train_loss", "N", "E", "bytes_up"} <= set(wanted)
    assert result.records[-1]["accuracy"] == wanted["accuracy"][3]
    if tracker == "mlflow":  # to which N is a file and N/E would be one in a folder N
        wanted = {name.replace("/", "."): curve for name, curve in wanted.items()}
    close_to(READ[tracker](live), wanted)
    if tracker != "wandb":  # whose second run would lie beside the first
        assert send(plain, tracker) == 3
        close_to(READ[tracker](plain), wanted)


def close_to(found: Curves, wanted: Curves) -> None:
    assert set(found) == set(wanted)
    for name, curve in wanted.items():
        assert found[name] == pytest.approx(curve, rel=1e-6), name  # TensorBoard keeps float32


@pytest.mark.parametrize("tracker", ["tensorboard"], indirect=True)
def test_a_run_that_goes_on_is_shown_once(tracker: str, tmp_path: Path) -> None:
    def stop(record: dict[str, Any], recipe: askew.Recipe) -> None:
        track(record, recipe)
        if record["round"] == 2:
            raise KeyboardInterrupt

    with Tracking(tracker, tmp_path / "run") as track:
        assert askew.run(RECIPE, out=tmp_path / "run", on_round=stop).interrupted
    with Tracking(tracker, tmp_path / "run") as track:
        assert askew.resume(tmp_path / "run", on_round=track).finished
    close_to(in_tensorboard(tmp_path / "run"), expected(tmp_path / "run"))


@pytest.mark.parametrize("fail_at", ["start", 1, 2, "end"])
def test_one_that_fails_costs_one_line_and_not_the_run(fail_at: str | int) -> None:
    kept = Kept(fail_at)
    with pytest.warns(UserWarning, match="tracking failed and is left off, the run goes on") as seen:  # noqa: SIM117
        with Tracking(kept.start, "first") as track:
            result = askew.run(RECIPE, on_round=track)
    assert result.finished
    assert len(seen) == 1
    assert "\n" not in str(seen[0].message)
    assert result.accuracy == askew.run(RECIPE).accuracy
    assert kept.finished is None
    assert {round for curve in kept.curves.values() for round in curve} == {"start": set(), 1: set(), 2: {1},
                                                                            "end": {1, 2, 3}}[fail_at]


def test_how_a_run_ended_is_told() -> None:
    kept = Kept()
    with Tracking(kept.start, "first") as track:
        askew.run(RECIPE, on_round=track)
    assert kept.finished is True
    assert kept.settings["rounds"] == 3
    kept = Kept()

    def broken(record: dict[str, Any], recipe: askew.Recipe) -> None:
        track(record, recipe)
        if record["round"] == 2:
            raise RuntimeError

    with pytest.raises(RuntimeError), Tracking(kept.start, "first") as track:
        askew.run(RECIPE, on_round=broken)
    assert kept.finished is False
    assert set(kept.curves["train_loss"]) == {1, 2}


def test_two_runs_are_not_mixed() -> None:
    kept = Kept()
    track = Tracking(kept.start, "first")
    askew.run(RECIPE.replace(rounds=1), on_round=track)
    with pytest.warns(UserWarning, match="a Tracking of its own"):
        askew.run(RECIPE.replace(rounds=1, seed=1), on_round=track)
    assert set(kept.curves["train_loss"]) == {1}


def test_every_number_of_a_record_is_sent_and_nothing_else() -> None:
    record = {"round": 1, "a": 1, "b": {"c": 0.5, "d": {"e": 2}}, "list": [1], "text": "x", "none": None,
              "inf": float("inf"), "nan": float("nan")}
    assert numbers_of(record) == {"a": 1.0, "b/c": 0.5, "b/d/e": 2.0}


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["askew", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("tracker", ["tensorboard"], indirect=True)
def test_commands(tracker: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                  tmp_path: Path) -> None:
    assert command(monkeypatch, "run", "--set", "rounds=2", "--out", "all/live", "--track", "tensorboard") == 0
    close_to(in_tensorboard(tmp_path / "all" / "live"), expected(tmp_path / "all" / "live"))
    assert command(monkeypatch, "run", "--set", "rounds=2", "--out", "all/later") == 0
    assert not (tmp_path / "all" / "later" / "tensorboard").exists()
    capsys.readouterr()
    assert command(monkeypatch, "track", "all", "--to", "tensorboard", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"to": "tensorboard", "rounds": {"all/later": 2, "all/live": 2}}
    close_to(in_tensorboard(tmp_path / "all" / "later"), expected(tmp_path / "all" / "later"))


@pytest.mark.parametrize(("arguments", "line"), [
    (("run", "--track", "tensorbord"), "unknown tracker 'tensorbord'; did you mean 'tensorboard'?"),
    (("run", "--track", "wandb"), "needs the package wandb, which is not installed: pip install 'askew[wandb]'"),
    (("track", "nowhere", "--to", "tensorboard"), "'nowhere' is no run folder, and holds none"),
    (("track", ".", "--to", "tensorboard"), "'.' is no run folder, and holds none"),
])
def test_what_is_wrong_is_one_line_and_writes_nothing(arguments: tuple[str, ...], line: str, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("askew.tracking.tracking.find_spec", lambda name: None)
    assert command(monkeypatch, *arguments) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("to", "folder"), [(5, "first"), (None, "first"), (["wandb"], "first"), (Kept().start, 3)])
def test_wrong_types_are_one_line(to: Any, folder: Any) -> None:
    with pytest.raises(AskewError, match="must be"):
        Tracking(to, folder)


def test_a_folder_that_cannot_be_sent_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    askew.run(RECIPE.replace(rounds=1), out=tmp_path / "run")
    (tmp_path / "run" / "tensorboard").write_text("a file in the place of a folder")
    with pytest.raises(AskewError, match="could not be sent: tensorboard: "):
        send(tmp_path / "run", "tensorboard")
