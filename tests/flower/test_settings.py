"""What a node and a server are told: paths, devices, folders of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from local_grid import LocalGrid, deployed, settings_of_parts
from said import Said

from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.flower.settings import NodeSettings, ServerSettings

TWO = Recipe(population="dirichlet(clients=2, alpha=0.5)", rounds=1)


def test_paths_that_are_not_whole_are_below_the_nodes_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the node was started: its process runs in a folder that nobody thinks of."""
    place = tmp_path / "Krankenhäuser im Süden"
    place.mkdir()
    (place / "node.toml").write_text("client = \"n\"\ndata = \"table('visits.csv', label='a', like='s.json')\"\n"
                                     "data-dir = 'sets'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = NodeSettings.read("Krankenhäuser im Süden/node.toml")
    assert settings.data == f"table(path='{place}/visits.csv', label='a', like='{place}/s.json')"
    assert settings.memory == f"{place}/memory"
    assert settings.data_dir == f"{place}/sets"
    (place / "node.toml").write_text("client = \"n\"\ndata = \"table('/data/visits.csv', label='a')\"\n"
                                     "memory = '/var/askew'\n", encoding="utf-8")
    settings = NodeSettings.read("Krankenhäuser im Süden/node.toml")
    assert settings.data == "table(path='/data/visits.csv', label='a')"
    assert (settings.memory, settings.data_dir) == ("/var/askew", "")


def test_a_run_folder_is_named_by_its_whole_path() -> None:
    with pytest.raises(AskewError, match="out: 'run' is not a whole path, and the server's process may run in any"):
        ServerSettings(out="run")


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_node_without_its_device_takes_no_part(tmp_path: Path, said: Said,
                                                 device: str) -> None:
    nodes = settings_of_parts(2)
    nodes[7] = f'client = "c2"\npart = 1\nreport-labels = true\ndevice = "{device}"\n'
    deployed(tmp_path, TWO, LocalGrid(tmp_path / "nodes", nodes), clients=3, wait=2.0)
    assert f"askew: no answer to query.hello: device '{device}' is not available here; use cpu, or cuda where " \
           "there is a GPU" in said.messages
    assert "askew: node 7 takes no part: AskewError; the node's log says more" in said.messages
    assert not any(record.exc_info for record in said.records)  # the line says what to do: no trace of calls with it


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_nodes_on_a_gpu_learn_with_one_on_a_cpu(tmp_path: Path) -> None:
    import askew

    recipe = askew.methods.scaffold(TWO.replace(rounds=2))  # with memory, and with what the server sends beside models
    nodes = settings_of_parts(2)
    nodes[1000] += 'device = "cuda"\n'
    ours, theirs = deployed(tmp_path, recipe, LocalGrid(tmp_path / "nodes", nodes)), askew.run(recipe)
    assert [r["accuracy"] for r in ours.records] == pytest.approx([r["accuracy"] for r in theirs.records], abs=0.02)


def test_a_folder_that_holds_a_run_is_refused_in_the_deployments_words(tmp_path: Path) -> None:
    deployed(tmp_path, TWO)
    with pytest.raises(AskewError, match=r"out: '.*' already holds a run; name a new folder \(--run-config "):
        deployed(tmp_path, TWO)


def test_a_resumed_run_says_that_the_apps_recipe_is_another(tmp_path: Path, said: Said) -> None:
    with pytest.raises(AskewError, match="round 1: "):
        deployed(tmp_path, TWO, deadline=0.001)
    result = deployed(tmp_path, TWO.replace(rounds=5), resume=True)
    assert len(result.records) == 1
    assert any("goes on with the recipe that it began with; recipe.toml of the app is another" in line
               for line in said.messages)
