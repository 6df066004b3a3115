"""What breaks while a run is under way: one clear end, earlier work intact, and nothing that stops the others."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from victims import BASE, LONG, contents, in_a_child, record, wait_for

import askew
from askew.core.client_piece import Optimiser
from askew.core.registry import piece
from askew.core.tensors import times
from askew.runs.compare import compare
from askew.runs.configuration import Configuration, Means
from askew.runs.driver import drive
from askew.runs.pace import Every
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def bad_rate() -> Iterator[dict[str, bool]]:
    """A client's step that fails from round 3 on where its rate is 0.5, until it is mended."""
    broken = {"is": True}

    @piece("client")
    def step_that_fails(lr: float = 0.1) -> Optimiser:
        def update(u, state, ctx):
            if broken["is"]:
                rate = torch.as_tensor(lr)
                if bool((rate == 0.5).any()) and int(ctx.round) >= 2:
                    raise RuntimeError("something is wrong\nwith many words")
            return times(u, -lr), state

        return Optimiser(update)

    from askew.core import registry

    yield broken
    registry._PIECES["client"].pop("step_that_fails")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_configuration_that_fails_does_not_stop_the_others(bad_rate: dict[str, bool], engine: str,
                                                             tmp_path: Path) -> None:
    recipes = grid(BASE.replace(client="step_that_fails(lr=0.1)"),
                   {"step_that_fails.lr": [0.1, 0.5, 0.2], "seed": [0, 1]})
    folders = [tmp_path / "sweep" / f"{i}" for i in range(6)]
    with pytest.warns(UserWarning, match="failed: RuntimeError: something is wrong"):
        results = sweep(recipes, engine=engine, folders=folders)
    assert [result.failed is None for result in results] == [True, True, False, False, True, True]
    assert all(result.failed == "RuntimeError: something is wrong" and len(result.records) == 2
               for result in results[2:4])
    assert all(len(result.records) == 6 for result in results if result.failed is None)
    again = sweep(recipes, engine=engine, folders=folders)  # what failed is not tried again unless asked for
    assert [result.failed for result in again] == [result.failed for result in results]
    bad_rate["is"] = False
    mended = sweep(recipes, engine=engine, folders=folders, retry_failed=True)
    assert all(result.finished for result in mended)
    whole = sweep(recipes, engine=engine)
    for result, plain in zip(mended, whole, strict=True):
        assert [r["round"] for r in result.records] == [r["round"] for r in plain.records]
        assert result.accuracy == pytest.approx(plain.accuracy, abs=1e-3)


def test_a_method_that_fails_does_not_stop_a_comparison(bad_rate: dict[str, bool], tmp_path: Path) -> None:
    recipes = {"good": BASE, "bad": BASE.replace(client="step_that_fails(lr=0.5)")}
    with pytest.warns(UserWarning, match="bad-seed0 failed"):
        compared = compare(recipes, [0, 1], out=tmp_path / "c")
    rows = {row["name"]: row for row in compared.as_mapping()["methods"]}
    assert (len(rows["good"]["seeds"]), len(rows["bad"]["seeds"])) == (2, 0)
    assert [lost["reason"] for lost in rows["bad"]["failed"]] == ["RuntimeError: something is wrong"] * 2
    bad_rate["is"] = False
    compared = compare(recipes, [0, 1], out=tmp_path / "c", go_on=True, retry_failed=True)
    assert all(len(row["seeds"]) == 2 for row in compared.as_mapping()["methods"])


def test_one_that_cannot_be_built_is_said_and_the_rest_are_trained(tmp_path: Path) -> None:
    recipes = grid(BASE, {"population": ["iid(clients=4)", "iid(clients=100000)"]})
    with pytest.warns(UserWarning, match="1 failed: .*100000|1 failed: .*100,000"):
        results = sweep(recipes, folders=[tmp_path / "0", tmp_path / "1"])
    assert [result.finished for result in results] == [True, False]
    assert not (tmp_path / "1").exists()
    with pytest.raises(askew.AskewError, match="1437"):  # nothing is left of it: an error as of one run
        sweep(recipes[1:])


def test_an_exception_saves_what_there_is_and_is_raised(bad_rate: dict[str, bool], tmp_path: Path) -> None:
    recipe = BASE.replace(client="step_that_fails(lr=0.5)")
    with pytest.raises(RuntimeError, match="something is wrong") as caught:
        askew.run(recipe, out=tmp_path / "run")
    assert any("askew resume" in note for note in caught.value.__notes__)
    bad_rate["is"] = False
    whole = askew.run(recipe)
    assert askew.resume(tmp_path / "run").records == whole.records


@pytest.mark.parametrize("error", [ValueError, MemoryError, SystemExit, KeyboardInterrupt])
def test_whatever_a_callback_raises_what_there_is_has_been_saved(error: type[BaseException], tmp_path: Path) -> None:
    whole = askew.run(BASE, out=tmp_path / "whole")

    def strike(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] == 3:
            raise error

    if error is KeyboardInterrupt:
        assert askew.run(BASE, out=tmp_path / "run", on_round=strike).interrupted
    else:
        with pytest.raises(error):
            askew.run(BASE, out=tmp_path / "run", on_round=strike)
    assert (tmp_path / "run" / "checkpoint-3.json").exists()
    assert askew.resume(tmp_path / "run").records == whole.records
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_one_that_cannot_be_left_in_order_keeps_no_other_from_being_saved(tmp_path: Path) -> None:
    """Ctrl-C in a sweep whose caller fails at the first result: the second has its checkpoint all the same."""
    folders = [tmp_path / "a", tmp_path / "b"]
    told: list[int] = []

    def stop(number: int, record: askew.Record, recipe: askew.Recipe) -> None:
        if number == 1 and record["round"] == 3:
            raise KeyboardInterrupt

    def ended(number: int, result: askew.Result) -> None:
        told.append(number)
        if len(told) == 1:
            raise ValueError("the caller's own")

    results = drive([Configuration(BASE.replace(seed=seed), folder) for seed, folder in enumerate(folders)],
                    Means(engine="vectorised"), on_round=stop, on_end=ended)
    assert [result.interrupted for result in results] == [True, True]
    assert told == [0, 1]
    for seed, folder in enumerate(folders):
        assert (folder / "checkpoint-3.json").exists()
        assert askew.resume(folder).records == askew.run(BASE.replace(seed=seed), engine="vectorised").records


def _full(folder: Path) -> None:
    """No file may grow beyond 60,000 bytes from now on: the system's own error, as of a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def _gone(folder: Path) -> None:
    shutil.rmtree(folder)


def _read_only(folder: Path) -> None:
    os.chmod(folder, 0o555)
    if os.geteuid() == 0:
        os.setuid(65534)


FAULTS: dict[str, tuple[Callable[[Path], None], bool]] = {"disk full": (_full, True), "folder deleted": (_gone, False),
                                                          "folder read-only": (_read_only, True)}


EVERY: list[int | str | None] = [None, 1, "1h"]
# Every fault with every way to save, in turns in a run and in a sweep; each of the latter meets every fault and every
# way. `make faults` strikes all of them.
STRUCK = [pytest.param(fault, many, every, id=f"{fault}-{'sweep' if many else 'run'}-{every}")
          for i, fault in enumerate(FAULTS) for j, every in enumerate(EVERY) for many in (False, True)
          if LONG or many is bool((i + j) % 2)]


@cache
def undisturbed(many: bool) -> list[list[askew.Record]]:
    return [result.records for result in sweep(disturbed(many))]


def disturbed(many: bool) -> list[askew.Recipe]:
    return grid(BASE.replace(rounds=12, model="mlp(hidden=[256])"), {"seed": [0, 1] if many else [0]})


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(("fault", "many", "every"), STRUCK)
def test_faults_in_mid_run(fault: str, many: bool, every: int | str | None, tmp_path: Path) -> None:
    """The disk, in the middle of a run: one line, and what was saved before is intact."""
    strike, resumable = FAULTS[fault]
    place = Path(tempfile.mkdtemp())  # where another user may look, too
    os.chmod(place, 0o755)
    recipes = disturbed(many)
    folders = [place / f"{i}" for i in range(len(recipes))]

    def on_round(i: int, record: askew.Record, recipe: askew.Recipe) -> None:
        if (i, record["round"]) == (0, 5):
            os.chmod(folders[0], 0o777)
            strike(folders[0])

    def work() -> None:
        try:
            configurations = [Configuration(recipe, path, go_on=True)
                              for recipe, path in zip(recipes, folders, strict=True)]
            drive(configurations, Means(checkpoint_every=Every.of(every)), on_round=on_round)
        except askew.AskewError as error:
            (tmp_path / "said").write_text(str(error))
            raise

    askew.run(BASE.replace(rounds=1), out=tmp_path / "before")  # loads all modules: another user may not read them
    try:
        os.chmod(tmp_path, 0o777)
        for parent in tmp_path.parents:
            if os.stat(parent).st_uid == os.geteuid() and parent != Path("/"):
                os.chmod(parent, os.stat(parent).st_mode | 0o111)
        assert wait_for(in_a_child(work)) == 1, "it ends with an error"
        said = (tmp_path / "said").read_text()
        assert "cannot be written" in said
        assert "\n" not in said
        os.chmod(folders[0], 0o755) if resumable else None
        if resumable:
            results = sweep(recipes, folders=folders)
            assert [result.records for result in results] == undisturbed(many)
        record(f"fault-{fault.replace(' ', '-')}-{'sweep' if many else 'run'}-{every or 'default'}",
               {"fault": fault, "in": "sweep" if many else "run", "checkpoint every": every,
                "said": said.replace(str(place), "DIR"),
                "went on to the same bits": resumable})
    finally:
        shutil.rmtree(place, ignore_errors=True)
