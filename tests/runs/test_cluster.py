"""Sweeps over a Ray cluster: what they give, what they do when a machine is lost, when they are stopped, when nobody
answers."""

import json
import socket
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import askew
from askew.cli.app import app
from askew.core.errors import AskewError
from askew.runs.cluster import Cluster, _work
from askew.runs.configuration import Means
from askew.runs.sweep import grid, sweep

SMALL = askew.Recipe(rounds=150, model="mlp(hidden=[8])", population="iid(clients=5)", batch_size=50)
# Both on this machine, at its own address: Ray does not let a program join a cluster at 127.0.0.1.
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.mark.slow
def test_a_machine_that_is_lost_in_mid_sweep_and_one_that_is_stopped(tmp_path: Path) -> None:
    """Two machines, of which one is killed: its runs are done again, and the folders are those of a sweep without
    Ray."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'askew[ray]'")
    from ray.cluster_utils import Cluster as TwoMachines

    recipes = grid(SMALL, {"sgd.lr": [0.03, 0.1], "seed": [0, 1]})
    plain = sweep(recipes, folders=[tmp_path / f"plain-{i}" for i in range(4)])
    heard: list[tuple[int, int]] = []
    machines = TwoMachines(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = machines.add_node(**NODE)

    def on_round(i: int, record: dict, recipe: askew.Recipe) -> None:
        heard.append((i, record["round"]))
        if {0, 1} <= {i for i, _ in heard} and second in machines.worker_nodes:  # both parts are under way
            machines.remove_node(second, allow_graceful=False)

    def stop_at_both(i: int, record: dict, recipe: askew.Recipe) -> None:
        begun.add(i)
        if begun == {0, 1}:
            raise KeyboardInterrupt

    begun: set[int] = set()
    try:
        with Cluster(machines.address) as cluster:
            assert cluster.slots("cpu") == 2
            done = sweep(recipes, folders=[tmp_path / f"ray-{i}" for i in range(4)], cluster=cluster, on_round=on_round)
            assert not machines.worker_nodes  # it was killed
            until = time.monotonic() + 60  # Ray notices by and by
            while cluster.slots("cpu") != 1 and time.monotonic() < until:
                time.sleep(0.2)
            assert cluster.slots("cpu") == 1
            long = [recipe.replace(rounds=10**6) for recipe in recipes[:2]]
            stopped = sweep(long, folders=[tmp_path / f"stopped-{i}" for i in range(2)], cluster=cluster,
                            on_round=stop_at_both)
    finally:
        machines.shutdown()
    assert [result.finished for result in done] == [True] * 4
    for i, result in enumerate(plain):
        for name in ("metrics.jsonl", "recipe.toml", "model.safetensors"):
            assert (tmp_path / f"ray-{i}" / name).read_bytes() == (tmp_path / f"plain-{i}" / name).read_bytes()
        assert done[i].records == result.records
        assert [round for at, round in heard if at == i] == list(range(1, 151))  # each once
    for i, result in enumerate(stopped):
        assert result.interrupted
        summary = json.loads((tmp_path / f"stopped-{i}" / "summary.json").read_text())
        assert (summary["stopped"], summary["rounds"] > 0) == ("interrupted", True)
        assert len(result.records) == summary["rounds"]


@pytest.mark.parametrize("command", [["sweep", "--grid", "seed=0,1"], ["compare"], ["advise"],
                                     ["reproduce", "zhao2018/figure1-mnist"]])
def test_without_ray_one_line_says_what_to_install(monkeypatch, tmp_path: Path, command: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*command, "--ray"])
    assert isinstance(result.exception, AskewError)
    assert "pip install 'askew[ray]'" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_addresses_at_which_nobody_is(refused) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'askew[ray]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address, pattern in ((f"127.0.0.1:{port}", "nothing answers at"),
                             ("recipe.toml", "no address; write HOST:PORT"),
                             ("127.0.0.1:99999", "nothing answers at"), ("http://h:1/", "is no address")):
        with refused(pattern), Cluster(address):
            pass


def test_a_machine_that_does_not_see_the_folder_says_so(refused, tmp_path: Path) -> None:
    with refused("does not see .*share"):
        _work([], Means(), (), str(tmp_path), [str(tmp_path / "elsewhere")], None)
