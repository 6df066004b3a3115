"""What clients remember, in checkpoints: a run that is resumed goes on as if nothing had happened, and
only what changed is written."""

from __future__ import annotations

import pytest
import torch

import askew
from askew.core import client_memory
from askew.core.client_memory import ClientMemory
from askew.core.tensors import ModelState
from askew.runs.checkpoints import MEMORY
from askew.runs.run_folder import RunFolder

pytestmark = pytest.mark.slow  # whole runs: tens of them

RECIPE = askew.methods.scaffold(askew.Recipe(rounds=6, population="shards(clients=8, shards_per_client=2)",
                                             fraction=0.5, batch_size=40))


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("method", ["scaffold", "kept_momentum", "fedper", "feddyn"])
def test_resumed_as_unbroken(method, engine, tmp_path):
    recipe = getattr(askew.methods, method)(askew.Recipe(rounds=6, population="shards(clients=8, shards_per_client=2)",
                                                         fraction=0.5, batch_size=40))
    whole = askew.run(recipe, engine=engine)

    def stop(record, recipe):
        if record["round"] == 3:
            raise KeyboardInterrupt

    assert askew.run(recipe, engine=engine, out=tmp_path / "run", on_round=stop).interrupted
    assert any((tmp_path / "run" / MEMORY).iterdir())
    resumed = askew.resume(tmp_path / "run")
    assert all(torch.equal(v, resumed.model[name]) for name, v in whole.model.items())
    assert resumed.accuracy == whole.accuracy
    assert not (tmp_path / "run" / MEMORY).exists(), "a finished run needs no checkpoint"


def test_only_what_changed_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(client_memory, "ROWS_PER_BLOCK", 2)
    folder = RunFolder.create(tmp_path / "run", RECIPE, {})
    memory = ClientMemory(lambda model: {"c": torch.zeros(3)}, ModelState({}))
    memory.put(0, [0, 1, 2, 3], {"c": torch.arange(12.0).view(4, 3)})  # rows 1 to 4: blocks 0, 1, 2
    folder.save_checkpoint({"round": 1, "memory": memory.state}, {"seconds": 1.0})
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / MEMORY).iterdir()}
    assert len(before) == 3
    memory.put(0, [3], {"c": torch.full((1, 3), 9.0)})  # row 4, block 2
    folder.save_checkpoint({"round": 2, "memory": memory.state}, {"seconds": 2.5})
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / MEMORY).iterdir()}
    assert len(after) == 4, "block 2 in two versions: the checkpoint before this one is kept"
    assert len(before.items() & after.items()) == 3
    folder.save_checkpoint({"round": 3, "memory": memory.state}, {"seconds": 3.0})
    assert len(list((tmp_path / "run" / MEMORY).iterdir())) == 3
    read = ClientMemory(lambda model: {"c": torch.zeros(3)}, ModelState({}))
    state, seconds = RunFolder.open(tmp_path / "run").load_checkpoint(torch.device("cpu"), {})
    assert seconds == 3.0
    read.state = state["memory"]
    assert read.rows(0, [0, 3, 7])["c"].tolist() == [[0, 1, 2], [9, 9, 9], [0, 0, 0]]


def test_what_clients_would_remember_must_fit(monkeypatch):
    from askew.engine import build, checks

    monkeypatch.setattr(checks, "device_memory", lambda device: 100_000)
    with pytest.raises(askew.AskewError,
                       match=r"clients would remember 0.0 MB each, 0.0 GB in all, and cpu can spare 0.0; take fewer"):
        build.build_task(RECIPE)
    with pytest.raises(askew.AskewError, match=r"all updates of 10 clients would take"):
        build.build_task(askew.methods.median(askew.Recipe()))
