"""Which engine "auto" takes, and that it remembers."""

import json

import pytest
import torch

import askew
from askew.simulate import engines
from askew.simulate.engines import ENGINES, calibrate, choose, make_engine
from askew.simulate.loop import Simulation
from askew.simulate.sequential import Sequential
from askew.simulate.task import build_task


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


LONG = askew.Recipe(rounds=10_000)


def _small():
    """Noise of the shape that a network with BatchNorm and dropout takes."""
    x, y = torch.randn(200, 1, 50, 10, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 10
    return askew.Dataset.from_tensors((x, y), (x[:20], y[:20]))


def test_a_calibration_times_every_engine_and_leaves_the_task_alone():
    """The first weights and buffers stay, and a round afterwards is what it is without one, bit for bit."""
    task, untouched = (build_task(LONG.replace(model="hello_edge_cnn(dropout=0.2)", batch_size=20), data=_small()) for _ in range(2))
    timings = calibrate(task, repeats=1)
    assert [t.engine for t in timings] == list(ENGINES)
    assert all(t.seconds is not None and t.seconds > 0 for t in timings)
    assert task.fresh.buffers
    for before, after in ((untouched.fresh.params, task.fresh.params), (untouched.fresh.buffers, task.fresh.buffers)):
        assert before.keys() == after.keys()
        assert all(torch.equal(v, after[name]) for name, v in before.items())
    assert Simulation(task, Sequential(task)).advance() == Simulation(untouched, Sequential(untouched)).advance()


def test_auto_takes_the_fastest_and_remembers_it(monkeypatch):
    task = build_task(LONG)
    calls = []

    def timed(task, repeats=3):
        calls.append(1)
        return [engines.Timing("sequential", 2.0), engines.Timing("vectorised", None, "no"), engines.Timing("parallel", 1.0)]

    monkeypatch.setattr(engines, "calibrate", timed)
    assert choose(task) == "parallel"
    assert make_engine("auto", task).name == "parallel"
    assert len(calls) == 1
    assert list(json.loads(engines.memory_file().read_text()).values()) == ["parallel"]


def test_another_network_is_another_question(monkeypatch):
    monkeypatch.setattr(engines, "calibrate", lambda task, repeats=3: [engines.Timing("sequential", 1.0)])
    choose(build_task(LONG))
    choose(build_task(LONG.replace(model="mlp(hidden=[8])")))
    choose(build_task(LONG.replace(seed=5, rounds=20_000)))  # the same shapes: no new question
    assert len(json.loads(engines.memory_file().read_text())) == 2


def test_a_spoilt_memory_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(engines, "calibrate", lambda task, repeats=3: [engines.Timing("sequential", 1.0)])
    engines.memory_file().parent.mkdir(parents=True)
    engines.memory_file().write_text("{not json")
    assert choose(build_task(LONG)) == "sequential"


def test_short_runs_are_not_worth_a_calibration(monkeypatch):
    monkeypatch.setattr(engines, "calibrate", lambda task, repeats=3: pytest.fail("calibrated"))
    assert choose(build_task(askew.Recipe(rounds=2))) == "vectorised"
    assert choose(build_task(askew.Recipe(rounds=2, model="small_cnn()"))) == "sequential"


def test_unknown_names_are_refused():
    task = build_task(LONG)
    with pytest.raises(askew.AskewError, match="unknown engine 'vectorized'; did you mean 'vectorised'"):
        make_engine("vectorized", task)
    with pytest.raises(askew.AskewError, match="unknown precision 'bf61'"):
        make_engine("vectorised", task, precision="bf61")
