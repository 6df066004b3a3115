"""Where weights start from."""

import re
from dataclasses import replace

import pytest
import torch

import askew
import askew.pieces.methods
from askew.core import registry
from askew.core.start import Start
from askew.core.tensors import ModelState
from askew.engine.build import build_task
from askew.engine.evaluate import score
from askew.engine.start import initial_model

BASE = askew.Recipe(rounds=1, population="shards(clients=10, shards_per_client=2) + hold_out(0.3)")


def start_of(recipe, **own):
    task = build_task(recipe, **own)
    return initial_model(task), task


def test_random_weights_depend_on_the_seed_alone():
    first, again, other = (start_of(askew.Recipe(seed=seed))[0].params["fc1.weight"] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    skewed = start_of(askew.Recipe(population="iid(clients=3)", client=["sgd(lr=9.0)"]))[0]
    assert torch.equal(skewed.params["fc1.weight"], first)


def test_a_warm_up_stops_at_the_accuracy_asked_for():
    model, task = start_of(BASE.replace(start="warm_up(until=0.7, epochs=50)"))
    assert score(task, model) >= 0.7
    little, task = start_of(BASE.replace(start="warm_up(until=0.7, epochs=1)"))
    assert score(task, little) < 0.7


def test_a_warm_up_sees_the_servers_examples_only():
    """With the labels of all clients' examples scrambled the warm-up is the same; on everyone's it is not."""
    data = askew.data.digits()
    task = build_task(BASE)
    scrambled = data.train.y.clone()
    clients = torch.from_numpy(task.population.train.indices)
    scrambled[clients] = (scrambled[clients] + 1) % 10
    other = askew.Dataset(data.name, askew.Examples(data.train.x, scrambled), data.test, data.classes)
    counted = replace(task.population, counts=task.population.train.counts(scrambled.numpy(), 10))
    for on, same in (("server", True), ("everyone", False)):
        recipe = BASE.replace(start=f"warm_up(until=1.0, epochs=2, on='{on}')")
        one = start_of(recipe, population=task.population)[0].params["fc1.weight"]
        two = start_of(recipe, population=counted, data=other)[0].params["fc1.weight"]
        assert torch.equal(one, two) is same


def test_a_warm_up_on_everyone_at_the_batch_of_sgd_is_sgd():
    """Two epochs from the same weights, as two rounds of training in one place: same steps, other order of examples."""
    base = askew.Recipe(population="iid(clients=10)", rounds=2)
    sgd = askew.run(askew.pieces.methods.centralised(base))
    tasks = {batch: build_task(base.replace(start=f"warm_up(until=1.0, epochs=2, on='everyone', batch_size={batch})"))
             for batch in (100, 10)}
    large, small = (score(task, initial_model(task)) for task in tasks.values())
    assert abs(large - sgd.accuracy) < 0.05
    assert small > large + 0.1  # the clients' own batch takes ten times as many steps
    own = build_task(base.replace(start="warm_up(until=1.0, epochs=2, on='everyone')"))
    assert score(own, initial_model(own)) == small


def test_pretrained_weights_are_taken_up(tmp_path):
    first = askew.run(askew.Recipe(rounds=2), out=tmp_path / "first")
    path = tmp_path / "first" / "model.safetensors"
    model, _ = start_of(askew.Recipe(start=f"pretrained(path='{path}')"))
    assert all(torch.equal(v, first.model[name]) for name, v in model.params.items())
    with pytest.raises(askew.AskewError, match=r"does not fit the network: fc1.weight must be \(8, 64\), found"):
        start_of(askew.Recipe(model="mlp(hidden=[8])", start=f"pretrained(path='{path}')"))
    with pytest.raises(askew.AskewError, match="start: no weights file"):
        start_of(askew.Recipe(start="pretrained(path='nothing.safetensors')"))
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"not weights")
    with pytest.raises(askew.AskewError, match="is not a safetensors file"):
        start_of(askew.Recipe(start=f"pretrained(path='{junk}')"))


@pytest.mark.parametrize(("start", "message"), [
    ("warm_up(until=0.0)", r"warm_up: until must be in \(0, 1\], got 0.0"),
    ("warm_up(epochs=0)", "epochs must be at least 1"),
    ("warm_up(batch_size=-1)", "warm_up: batch_size must not be negative, got -1"),
])
def test_settings_out_of_range_are_refused(start, message):
    with pytest.raises(askew.AskewError, match=message):
        askew.run(BASE.replace(start=start))

@registry.piece("start")
def _unusual_start(what: str) -> Start:
    def make(ctx):
        params, buffers = dict(ctx.fresh.params), dict(ctx.fresh.buffers)
        if what == "in another order":
            return ModelState(dict(reversed(params.items())), buffers)
        if what == "few":
            return ModelState({"fc1.weight": params["fc1.weight"]}, buffers)
        if what == "no model":
            return params
        (params if what != "buffers" else buffers)["fc1.bias"] = {
            "cut": params["fc1.bias"][:1], "double": params["fc1.bias"].double(), "number": 0.5,
            "buffers": params["fc1.bias"]}[what]
        return ModelState(params, buffers)

    return Start(make)


@pytest.mark.parametrize(("what", "message"), [
    ("few", "_unusual_start makes nothing of 'fc1.bias', where the network has float32 [64]"),
    ("cut", "makes float32 [1] of 'fc1.bias', where the network has float32 [64]; take ctx.fresh.params"),
    ("double", "makes float64 [64] of 'fc1.bias'"), ("number", "makes 0.5 of 'fc1.bias'"),
    ("buffers", "makes float32 [64] of 'fc1.bias', where the network has nothing; take ctx.fresh.buffers"),
    ("no model", "it must make a ModelState(params, buffers)")])
def test_a_start_has_to_make_all_of_the_networks_tensors(what, message):
    recipe = BASE.replace(start=f"_unusual_start('{what}')")
    for begin in (askew.run, start_of):
        with pytest.raises(askew.AskewError, match=re.escape(message)):
            begin(recipe)


def test_the_order_in_which_a_start_names_its_tensors_does_not_matter():
    result = askew.run(BASE.replace(start="_unusual_start('in another order')"))
    assert result.records == askew.run(BASE).records
    assert list(result.model) == list(build_task(BASE).fresh.params)
