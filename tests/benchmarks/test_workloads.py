"""The benchmarks' workloads are what they say, and the check "same weights" can tell right from wrong."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conform.forms import LONG

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))
from contestant import Federation
from lay_out import lay_out
from plain_loop import PlainLoop
from with_askew import Askew
from workloads import workload

from askew.engine.build import build_task
from askew.engine.sample import sample

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]
COMMAND = Path(__file__).parents[2] / "benchmarks" / "peers.py"
# Not `import peers`: there is a folder of that name too.
_spec = importlib.util.spec_from_file_location("benchmark_peers", COMMAND)
assert _spec is not None
assert _spec.loader is not None
peers = importlib.util.module_from_spec(_spec)
sys.modules["benchmark_peers"] = peers  # where dataclasses look for the module's names
_spec.loader.exec_module(peers)


ROUNDS = 2


@pytest.fixture(scope="module")
def federation() -> Federation:
    return lay_out(workload("W3"), rounds=ROUNDS)


@pytest.fixture(scope="module")
def exact(federation):
    return peers.exact_weights(federation, ROUNDS)


def begin_of(federation):
    return {name: v.detach().clone() for name, v in federation.module.named_parameters()}


def difference_of(federation, exact, **changes):
    """How far a plain float32 loop ends from the exact weights, on a federation with something changed."""
    loop = PlainLoop(dataclasses.replace(federation, module=copy.deepcopy(federation.module), **changes))
    for number in range(ROUNDS):
        loop.round(number)
    return peers.difference(loop.weights(), exact, begin_of(federation))


@pytest.mark.parametrize(("name", "clients", "cohort", "each", "parameters"), [
    # conv 3*9*32+32 = 896, 32*9*64+64 = 18,496; fc 12,544*128+128 = 1,605,760, 128*10+10 = 1,290
    ("W1", 1000, 50, 50, 896 + 18_496 + 1_605_760 + 1_290),
    ("W2", 100, 10, 600, 431_080),
    ("W3", 1000, 100, 100, 64 * 64 + 64 + 64 * 10 + 10),
])
def test_workloads_have_the_sizes_they_announce(name, clients, cohort, each, parameters):
    work = workload(name)
    task = build_task(work.recipe, data=work.data)
    assert task.num_clients == clients
    assert task.cohort_size == cohort
    assert set(task.population.sizes.tolist()) == {each}
    assert work.images_per_round == cohort * each
    assert sum(p.numel() for p in task.module.parameters()) == parameters


def test_w2_clients_own_two_classes_at_most():
    work = workload("W2")
    classes = (build_task(work.recipe, data=work.data).population.counts > 0).sum(axis=1)
    assert classes.max() == 2
    assert np.mean(classes == 2) > 0.7  # two shards of one class can meet at one client


def test_laid_out_clients_train_on_their_own_examples_once(federation):
    work = workload("W3")
    task = build_task(work.recipe, data=work.data)
    for number in range(ROUNDS):
        assert federation.clients[number].tolist() == sample(task, number)
        for position, client in enumerate(federation.clients[number].tolist()):
            assert sorted(federation.orders[number, position].tolist()) == sorted(task.population.train[client])


def test_float32_loop_arrives_at_the_exact_weights(federation, exact):
    assert difference_of(federation, exact) < peers.TOLERANCE


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_askew_arrives_at_the_exact_weights(federation, exact, engine):
    askew = Askew("W3", federation.lr, engine)
    for number in range(ROUNDS):
        askew.round(number)
    # Far below the tolerance: askew averages updates in float64.
    assert peers.difference(askew.weights(), exact, begin_of(federation)) < peers.TOLERANCE / 10


def swapped(order):
    """The first two batches of 10 change places."""
    return torch.cat([order[..., 10:20], order[..., :10], order[..., 20:]], dim=-1)


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "least"), [("one client", 2e-3), ("all clients", 1e-2), ("unshuffled", 5e-2),
                                              ("lr", 5e-3), ("a batch missing", 1e-1), ("another client", 3e-2)])
def test_anything_else_is_told_apart(federation, exact, wrong, least):
    orders = federation.orders
    one = orders.clone()
    one[:, 0] = swapped(orders[:, 0])
    twice = orders.clone()
    twice[:, 1] = orders[:, 0]
    changes = {"one client": {"orders": one}, "all clients": {"orders": swapped(orders)},
               "unshuffled": {"orders": orders.sort(dim=-1).values}, "lr": {"lr": 1.01 * federation.lr},
               "a batch missing": {"orders": orders[..., :90]}, "another client": {"orders": twice}}[wrong]
    assert difference_of(federation, exact, **changes) > least > peers.TOLERANCE


def test_ratio_is_time_over_askew_s_time():
    rows = {"askew auto": {"seconds": [1.0, 2.0, 30.0]}, "pfl": {"seconds": [4.0, 5.0, 6.0]}}
    peers.summarise(rows["pfl"], rows, images=100)
    assert rows["pfl"]["ratio"] == 2.5
    assert rows["pfl"]["median_ms"] == 5000.0
    assert rows["pfl"]["images_per_s"] == 20.0


@pytest.mark.parametrize(("code", "reason"), [
    ("raise ValueError('no such data')", "ended with status 1: ValueError: no such data"),
    ("input(); print('{\"error\": \"OSError: disk full\"}')", "OSError: disk full"),
])
def test_a_contestant_that_fails_is_left_out_with_its_reason(tmp_path, code, reason):
    process = peers.Process([sys.executable, "-c", code], 1, tmp_path / "log", tmp_path)
    with pytest.raises(peers.LeftOut) as caught:
        process.ask(do="load")
    process.close()
    assert str(caught.value) == reason


def test_more_processes_than_threads_are_left_out(tmp_path):
    with pytest.raises(peers.LeftOut) as caught:
        peers.start(peers.Entry("with_pfl.py", ("2",), processes=2, peer=False), 1, tmp_path / "log", tmp_path)
    assert "--threads is 1" in str(caught.value)


def test_unknown_names_are_refused(monkeypatch, capsys):
    for option, value in (("--contestants", "plane loop"), ("--workloads", "W9"), ("--rounds", "0")):
        monkeypatch.setattr(sys, "argv", [str(COMMAND), option, value])
        with pytest.raises(SystemExit) as ended:
            peers.main()
        assert ended.value.code == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.count(option) == 1
        assert value in said


@pytest.mark.skipif(not LONG, reason="a process per contestant: in the long run, ASKEW_LONG=1")
def test_the_command_measures_who_can_take_part(tmp_path):
    out = tmp_path / "peers.json"
    names = "askew vectorised;plain loop;pfl;FedLab"
    done = subprocess.run([sys.executable, str(COMMAND), "--workloads", "W3", "--rounds", "1", "--threads", "1",
                           "--contestants", names, "--json", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())["workloads"][0]
    measured = {row["contestant"] for row in result["rows"]}
    assert measured | set(result["left_out"]) == set(names.split(";"))
    assert {"askew vectorised", "plain loop"} <= measured
    if peers.VENV.exists():
        assert not result["left_out"]
    else:
        assert all("--setup" in reason for reason in result["left_out"].values())
    assert all(row["same_weights"] and len(row["seconds"]) == 1 for row in result["rows"])
