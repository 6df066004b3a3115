"""Clients with data of their own: tables that lack classes, a function of the user's, and a server that has nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from local_grid import LocalGrid
from safetensors.torch import load_file

from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.data.skew_table import read_counts
from askew.data.table import table as read_table
from askew.flower import client_app
from askew.flower.server import serve
from askew.flower.settings import ServerSettings
from askew.pieces.methods import fedper
from askew.runs.result import Result

RECIPE = Recipe(name="visits", data="table('elsewhere.csv', label='state')", model="mlp(hidden=[8])", rounds=3,
                client="sgd(lr=0.5)")
CENTRES = {"ill": (2.0, 0.0), "well": (-2.0, 0.0), "odd": (0.0, 3.0)}


def table(path: Path, counts: dict[str, int], seed: int, columns: str = "a,b") -> str:
    """Points around a centre for each class; the line of a node's settings that names them."""
    draws = np.random.default_rng(seed)
    rows = [f"{x + draws.normal():.3f},{y + draws.normal():.3f},{name}" for name, (x, y) in CENTRES.items()
            for _ in range(counts.get(name, 0))]
    path.write_text(f"{columns},state\n" + "\n".join(rows) + "\n")
    return f"data = \"table('{path}', label='state')\"\n"


def served(folder: Path, nodes: dict[int, str], recipe: Recipe = RECIPE, app: Any = None, **settings: Any) -> Result:
    (folder / "recipe.toml").write_text(recipe.to_toml())
    told = {"recipe": str(folder / "recipe.toml"), "out": str(folder / "run"), "poll": 0.005, "wait": 10.0,
            "clients": len(nodes), "deadline": 20.0, **settings}
    return serve(LocalGrid(folder / "nodes", nodes, app=app), ServerSettings(**told))


def hospitals(folder: Path, **more: str) -> dict[int, str]:
    """North has no "odd" ones, south nobody who is well."""
    have = {"north": {"ill": 40, "well": 60}, "south": {"ill": 50, "odd": 30},
            "west": {"ill": 20, "well": 20, "odd": 20}}
    return {7 + i: f'client = "{name}"\n' + table(folder / f"{name}.csv", counts, i) + more.get(name, "")
            for i, (name, counts) in enumerate(have.items())}


def test_clients_that_lack_classes_learn_the_federations(tmp_path: Path) -> None:
    """Labels are numbered alike everywhere: with each table's own numbers, "odd" of south would be "well" of north."""
    result = served(tmp_path, hospitals(tmp_path))
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    assert about["classes"] == ["ill", "odd", "well"]
    assert about["clients"] == ["north", "south", "west"]
    assert result.records[-1]["accuracy"] > 0.85
    assert result.judged_on == "48 test examples of 3 clients' own, at the clients"


def test_layers_that_stay_at_the_clients_do_not_reach_the_server(tmp_path: Path) -> None:
    """FedPer: the server's own head stays as it began, each node keeps one, and clients judge with theirs."""
    models = {}
    for rounds in (1, 3):
        folder = tmp_path / str(rounds)
        folder.mkdir()
        result = served(folder, hospitals(folder), fedper(RECIPE.replace(rounds=rounds), ["fc2.*"]))
        models[rounds] = load_file(folder / "run" / "model.safetensors")
    assert result.records[-1]["accuracy"] > 0.85
    assert result.judged_on == "48 test examples of 3 clients' own, at the clients"
    changed = {name for name, v in models[1].items() if not torch.equal(v, models[3][name])}
    assert changed == {"fc1.weight", "fc1.bias"}
    for node in (7, 8, 9):
        row = load_file(next((tmp_path / "3" / "nodes" / str(node) / "memory").glob("*/0-2.safetensors")))
        assert sorted(v.numel() for v in row.values()) == [3, 24]  # of three classes and eight hidden units


def test_what_clients_say_is_weighted_by_their_test_examples(tmp_path: Path) -> None:
    result = served(tmp_path, hospitals(tmp_path), RECIPE.replace(rounds=1))
    record = result.records[0]
    network = result.simulation.task.module
    network.load_state_dict(result.model)
    scores, sizes = [], []
    for name in ("north", "south", "west"):
        data = read_table(str(tmp_path / f"{name}.csv"), label="state")
        places = torch.tensor([("ill", "odd", "well").index(c) for c in data.classes])
        right = network.eval()(data.test.x).argmax(1) == places[data.test.y]
        scores.append(float(right.double().mean()))
        sizes.append(len(right))
    assert record["accuracy"] == pytest.approx(np.average(scores, weights=sizes))
    assert record["device_accuracy_mean"] == pytest.approx(np.mean(scores))
    assert record["device_accuracy_min"] == pytest.approx(min(scores))
    assert 0 <= record["received_accuracy"] <= 1  # what they thought of the model that they were sent


def test_label_counts_are_told_only_by_those_who_allow_it(tmp_path: Path) -> None:
    served(tmp_path, hospitals(tmp_path, north="report-labels = true\n", west="report-labels = true\n"),
           RECIPE.replace(rounds=1))
    counts = read_counts(tmp_path / "run" / "labels.csv")
    assert counts.clients == ["north", "west"]
    assert counts.classes == ["ill", "odd", "well"]
    assert counts.counts.tolist() == [[32, 0, 48], [16, 16, 16]]
    known = json.loads((tmp_path / "run" / "clients.json").read_text())["clients"]
    assert [client["labels"] for client in known] == [[32, 48], [], [16, 16, 16]]


def test_a_client_whose_table_has_another_form_takes_no_part(tmp_path: Path) -> None:
    nodes = hospitals(tmp_path)
    nodes[20] = 'client = "east"\n' + table(tmp_path / "east.csv", {"ill": 30, "well": 30}, 5, columns="a,c")
    result = served(tmp_path, nodes, RECIPE.replace(rounds=1), wait=1.0)
    assert result.records[0]["clients"] == 3


def test_an_error_at_a_node_tells_nobody_what_is_in_its_table(tmp_path: Path) -> None:
    nodes = hospitals(tmp_path)
    (tmp_path / "bad.csv").write_text("a,b,state\n1,secret-cell,ill\n2,,well\n")
    nodes[21] = f'client = "bad"\ndata = "table(\'{tmp_path / "bad.csv"}\', label=\'state\')"\n'
    grid = LocalGrid(tmp_path / "nodes", nodes)
    said: list[str] = []
    plain = grid.pull_messages
    grid.pull_messages = lambda ids: [said.append(str(reply)) or reply for reply in plain(ids)]
    (tmp_path / "recipe.toml").write_text(RECIPE.replace(rounds=1).to_toml())
    serve(grid, ServerSettings(recipe=str(tmp_path / "recipe.toml"), out=str(tmp_path / "run"), poll=0.005, wait=1.0,
                               clients=4))
    assert any("AskewError; the node's log says more" in line for line in said)
    assert not any("secret-cell" in line or "bad.csv" in line for line in said)


def test_a_function_of_the_users_gives_a_client_its_data(tmp_path: Path) -> None:
    def load(settings: Any, recipe: Recipe) -> Dataset:
        draws = torch.Generator().manual_seed(len(settings.client))
        x = torch.randn(60, 4, generator=draws)
        y = (x[:, 0] > 0).long()
        return Dataset.from_tensors((x[:40], y[:40]), (x[40:], y[40:]), classes=["low", "high"])

    nodes = {1: 'client = "a"\n', 2: 'client = "bb"\n', 3: 'client = "ccc"\n'}
    result = served(tmp_path, nodes, RECIPE.replace(rounds=5), app=client_app(data=load))
    assert result.records[-1]["accuracy"] > 0.8


@pytest.mark.parametrize(("changes", "message"), [
    ({"adversity": ["drop_out(0.1)"]}, "adversity: drop_out simulates what real clients do by themselves"),
    ({"preprocess": ["normalise()"]}, "preprocess: normalise measures the data, which no one place has"),
    ({"stop_after_no_gain": 3}, "stop_after_no_gain: "),
    ({"population": "iid(clients=3) + hold_out(0.2) + share(0.5)"}, "population: share deals out examples, or changes"),
    ({"population": "iid(clients=3) + feature_noise(0.5)"}, "population: feature_noise deals out examples, or changes"),
    ({"population": "iid(clients=3) + hold_out(0.2)"}, "population: hold_out keeps examples at the server, and the "),
    ({"probes": ["weight_divergence()"]}, "a probe wants examples that the server of a deployment does not have"),
])
def test_what_makes_no_sense_with_real_clients_is_refused(tmp_path: Path, changes: dict[str, Any],
                                                          message: str) -> None:
    with pytest.raises(AskewError, match=message):
        served(tmp_path, hospitals(tmp_path), RECIPE.replace(rounds=1, **changes))


@pytest.mark.parametrize(("changes", "message"), [
    ({"server": ["median()"]}, "secure-aggregation: server piece median keeps every client's update, and secure "),
    ({"guard": ["leave_out()"]}, "secure-aggregation: guard leave_out compares the lengths of single updates"),
    ({}, None),
])
def test_secure_aggregation_refuses_what_needs_single_updates(tmp_path: Path, changes: dict[str, Any],
                                                              message: str | None) -> None:
    if message is None:
        served(tmp_path, hospitals(tmp_path), RECIPE.replace(rounds=1), secure_aggregation=True)
        return
    with pytest.raises(AskewError, match=message):
        served(tmp_path, hospitals(tmp_path), RECIPE.replace(**changes), secure_aggregation=True)
    assert not (tmp_path / "run").exists()


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    nodes = hospitals(tmp_path)
    nodes[9] = nodes[9].replace('"west"', '"north"')
    with pytest.raises(AskewError, match="2 nodes call themselves 'north'; give each its own name"):
        served(tmp_path, nodes)


def test_a_run_goes_on_only_with_the_data_that_it_began_with(tmp_path: Path) -> None:
    nodes = hospitals(tmp_path)
    with pytest.raises(AskewError, match="round 1: "):  # too few: it ends before its first round is done
        served(tmp_path, nodes, deadline=0.001)
    table(tmp_path / "south.csv", {"ill": 50, "odd": 40}, 1)
    with pytest.raises(AskewError, match=r"client south has not what it had when the run began \(64 examples then, 72"):
        served(tmp_path, nodes, resume=True)
