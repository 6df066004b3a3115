"""An interrupted run that is resumed ends as if it had never been interrupted, byte for byte."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import askew
from askew.core.population import Ownership, Population
from askew.core.server_piece import ServerChain
from askew.pieces.methods import fedavg, fedavgm, fedcd, fednnnn, ozdayi_combination
from askew.rounds import simulation, standing
from askew.rounds.simulation import Simulation

pytestmark = pytest.mark.slow  # whole runs: tens of them

BASE = askew.Recipe(rounds=4, fraction=0.5, batch_size=40, probes=["update_norms()"])
METHODS = [fedavg(BASE), fedavgm(BASE), fednnnn(BASE), fedcd(BASE, milestones=[1, 3]), ozdayi_combination(BASE)]


def contents(folder):
    """All files that must not depend on interruptions (times and dates do)."""
    dated = ("summary.json", "environment.json")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in dated}


def stop_after(round):
    def on_round(record, recipe):
        if record["round"] == round:
            raise KeyboardInterrupt

    return on_round


@pytest.mark.parametrize("recipe", METHODS, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("at", [2, 3])
def test_interrupted_between_rounds(recipe, at, tmp_path):
    whole = askew.run(recipe, out=tmp_path / "whole")
    stopped = askew.run(recipe, out=tmp_path / "broken", on_round=stop_after(at))
    assert stopped.interrupted
    assert len(stopped.records) == at
    assert (tmp_path / "broken" / f"checkpoint-{at}.pt").exists()
    assert json.loads((tmp_path / "broken" / "summary.json").read_text())["stopped"] == "interrupted"
    resumed = askew.resume(tmp_path / "broken")
    assert not resumed.interrupted
    assert resumed.records == whole.records
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.parametrize(("owner", "method"), [
    (standing, "evaluate"), (simulation, "example_scores"), (ServerChain, "update"), (Simulation, "_update_pool"),
    (simulation, "check_models")])
def test_interrupted_in_the_middle_of_a_round(owner, method, tmp_path, monkeypatch):
    """Wherever Ctrl-C strikes, the round under way is undone: during training, aggregation, validation, evaluation."""
    recipe = fedcd(BASE, milestones=[1, 2])
    askew.run(recipe, out=tmp_path / "whole")
    real, calls = getattr(owner, method), []

    def strike(*args, **kwargs):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, method, strike)
    stopped = askew.run(recipe, out=tmp_path / "broken")
    monkeypatch.setattr(owner, method, real)
    assert stopped.interrupted
    assert len(stopped.records) == stopped.simulation.round < 4
    askew.resume(tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_interrupted_twice_and_before_the_first_round(tmp_path, monkeypatch):
    askew.run(BASE, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        def strike(self, behind):
            raise KeyboardInterrupt

        patch.setattr(Simulation, "begin", strike)
        nothing = askew.run(BASE, out=tmp_path / "broken")
    assert nothing.records == []
    askew.resume(tmp_path / "broken", on_round=stop_after(1))
    askew.resume(tmp_path / "broken", on_round=stop_after(3))
    askew.resume(tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_killed_after_a_checkpoint(tmp_path):
    """A power cut: the last checkpoint is older than the last metrics, and the last line is half written."""

    def power_cut(record, recipe):
        if record["round"] == 3:  # what lies on the disk now is what a power cut would leave
            shutil.copytree(tmp_path / "whole", tmp_path / "broken")

    askew.run(BASE, out=tmp_path / "whole", checkpoint_every=2, on_round=power_cut)
    assert (tmp_path / "broken" / "checkpoint-2.json").exists()
    assert not (tmp_path / "broken" / "checkpoint-3.json").exists()
    with (tmp_path / "broken" / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "clie')
    result = askew.resume(tmp_path / "broken")
    assert [record["round"] for record in result.records] == [1, 2, 3, 4]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_what_cannot_be_resumed(tmp_path):
    askew.run(BASE, out=tmp_path / "done")
    with pytest.raises(askew.AskewError, match="has no checkpoint: the run is finished"):
        askew.resume(tmp_path / "done")
    with pytest.raises(askew.AskewError, match=r"is not a run folder: it has no recipe\.toml"):
        askew.resume(tmp_path)

    def copy(record, recipe):
        if record["round"] == 1:
            shutil.copytree(tmp_path / "whole", tmp_path / "killed")

    askew.run(BASE, out=tmp_path / "whole", checkpoint_every=2, on_round=copy)
    with pytest.raises(askew.AskewError, match="stopped before its first checkpoint"):
        askew.resume(tmp_path / "killed")


def test_a_run_on_objects_of_ones_own_wants_them_back(tmp_path):
    """Resumed without them it would go on with the recipe's data and network, silently."""
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    data = askew.Dataset.from_tensors((x[:40], torch.arange(40) % 2), (x[40:], torch.arange(20) % 2), name="mine")
    population = Population.of(Ownership.of([range(30), range(30, 40)]), data.train.y.numpy(), 2)
    own = {"data": data, "population": population, "model": nn.Linear(5, 2)}
    whole = askew.run(BASE, **own)
    askew.run(BASE, **own, out=tmp_path / "run", on_round=stop_after(2))
    for missing in own:
        rest = {name: value for name, value in own.items() if name != missing}
        with pytest.raises(askew.AskewError, match=f"was given a {missing} of its own"):
            askew.resume(tmp_path / "run", **rest)
    resumed = askew.resume(tmp_path / "run", **own)
    assert resumed.records == whole.records


def test_no_weights_of_models_that_died_since_the_interruption_stay_behind(tmp_path):
    """FedCD's models come and go; the folder of a finished run holds the weights of those that live."""
    recipe = fedcd(askew.Recipe(rounds=5, population="hierarchical(clients=10)", seed=7), milestones=[1, 2, 3])
    stopped = askew.run(recipe, out=tmp_path / "run", on_round=stop_after(3))
    resumed = askew.resume(tmp_path / "run")
    gone = set(stopped.simulation.models) - set(resumed.simulation.models)
    assert gone, "the test needs a model that dies in rounds 4 and 5"
    live = {path.name for path in (tmp_path / "run").glob("model*.safetensors")}
    assert len(live) == len(resumed.simulation.models)
    assert "model.safetensors" in live
    first = np.bincount(resumed.records[-1]["choice"]).argmax()
    assert live == {"model.safetensors"} | {f"model-{m}.safetensors" for m in resumed.simulation.models if m != first}
