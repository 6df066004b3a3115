"""Training that blows up says where, says what to do, and keeps the last good weights."""

import json

import pytest
import torch
from safetensors.torch import load_file

import askew
from askew.engine.build import build_task
from askew.engine.start import initial_model

FAST = "sgd(lr=1000000.0)"


def finite(tensors):
    return all(bool(torch.isfinite(v).all()) for v in tensors.values())


def test_an_update_that_is_not_finite(tmp_path):
    recipe = askew.Recipe(rounds=5, client=[FAST])
    with pytest.raises(askew.DivergedError) as error:
        askew.run(recipe, out=tmp_path / "run")
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("round 1: the update of client")
    assert message.endswith("lower the learning rate (sgd.lr is 1000000.0), "
                            "or clip gradients (clip_gradient(10) before sgd)")
    weights, start = load_file(tmp_path / "run" / "model.safetensors"), initial_model(build_task(recipe)).params
    assert all(torch.equal(weights[name], v) for name, v in start.items())
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == message
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""


def test_clipping_is_no_advice_for_who_clips_already():
    with pytest.raises(askew.DivergedError, match=r"lower the learning rate \(sgd.lr is 1e\+30\)$"):
        askew.run(askew.Recipe(rounds=5, client=["clip_gradient(1e30)", "sgd(lr=1e30)"]))


def test_the_rounds_before_it_are_kept(tmp_path):
    """The server's rate makes round 2 start far away; what is left is the model after round 1, and its record."""
    recipe = askew.Recipe(rounds=5, server=["mean()", "scale(1e15)"])
    good = askew.run(recipe.replace(rounds=1))
    with pytest.raises(askew.DivergedError, match=r"^round \d: ") as error:
        askew.run(recipe, out=tmp_path / "run")
    number = int(str(error.value)[6])
    assert number >= 2
    kept = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["round"] for record in kept] == list(range(1, number))
    assert kept[0] == good.records[0]
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert finite(weights)
    same = askew.run(recipe.replace(rounds=number - 1)).model
    assert all(torch.equal(v, weights[name]) for name, v in same.items())


@pytest.mark.parametrize("evaluate_every", [1, 5])
def test_a_server_that_leaves_the_range_of_numbers(evaluate_every, tmp_path):
    """All client updates are finite, the new global model is not: it must not become the last good one."""
    recipe = askew.Recipe(rounds=3, server=["mean()", "scale(1e38)", "scale(1e38)"], evaluate_every=evaluate_every)
    with pytest.raises(askew.DivergedError, match="round 1: "):
        askew.run(recipe, out=tmp_path / "run")
    assert finite(load_file(tmp_path / "run" / "model.safetensors"))


def test_one_bad_client_is_named():
    x = torch.ones(20, 3)
    x[15:] *= 1e30
    data = askew.Dataset.from_tensors((x, torch.arange(20) % 2), (x[:10], torch.arange(10) % 2))
    from askew.core.population import Ownership, Population

    population = Population.of(Ownership.of([range(8), range(8, 15), range(15, 20)]), data.train.y.numpy(), 2)
    with pytest.raises(askew.DivergedError, match="round 1: the update of client 2 is not finite; lower the"):
        askew.run(askew.Recipe(model="mlp(hidden=[4])", rounds=1), data=data, population=population)
