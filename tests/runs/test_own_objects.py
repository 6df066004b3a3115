"""Any module and any tensors; and what does not fit is refused before anything runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import askew
from askew.core.population import Ownership, Population


class Sentences(nn.Module):
    """Words as integers, an embedding, a scale that is a single number, dropout, a frozen layer."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(8, classes)

    def forward(self, x):
        return self.out(self.drop(torch.tanh(self.scale * self.frozen(self.embed(x.long()).mean(dim=1)))))


def sentences(examples: int = 240, classes: int = 3):
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(examples) % classes
    x = torch.randint(0, 6, (examples, 5), generator=generator) + 6 * y[:, None]
    half = examples // 2
    return askew.Dataset.from_tensors((x[:half], y[:half]), (x[half:], y[half:]), name="sentences")


def test_a_module_with_embeddings_a_scalar_dropout_and_a_frozen_layer_learns(tmp_path):
    data = sentences()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, fresh = Sentences(), Sentences()
    recipe = askew.Recipe(population="dirichlet(clients=4, alpha=1.0)", rounds=8, client=["sgd(lr=1.0)"])
    result = askew.run(recipe, data=data, model=model, out=tmp_path / "run")
    assert result.accuracy > 0.9
    assert result.records == askew.run(recipe, data=data, model=model).records
    # The file holds the whole network, the frozen layer included: a fresh one that loads it is as good.
    fresh.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    assert torch.equal(fresh.frozen.weight, model.frozen.weight)
    right = (fresh.eval()(data.test.x).argmax(dim=1) == data.test.y).float().mean()
    assert float(right) == pytest.approx(result.accuracy)


class Tied(nn.Module):
    """Two layers with one and the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(torch.relu(self.two(torch.relu(self.one(x)))))


def test_a_weight_that_two_layers_share_stays_shared_and_is_saved_under_both_names(tmp_path):
    model, data = Tied(), sentences()
    recipe = askew.Recipe(population="iid(clients=2)", rounds=2, client=["sgd(lr=0.001)"])
    result = askew.run(recipe, data=data, model=model, out=tmp_path / "run")
    assert torch.equal(result.model["one.weight"], result.model["two.weight"])
    assert not torch.equal(result.model["one.weight"], model.one.weight)
    saved = load_file(tmp_path / "run" / "model.safetensors")
    model.load_state_dict(saved)
    assert torch.equal(model.two.weight, saved["one.weight"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.uint8, torch.int32])
def test_inputs_of_any_type_and_shape(dtype):
    x = (torch.arange(60 * 12).reshape(60, 3, 4) % 7).to(dtype)
    data = askew.Dataset.from_tensors((x[:40], torch.arange(40) % 2), (x[40:], torch.arange(20) % 2))
    result = askew.run(askew.Recipe(population="iid(clients=2)", rounds=2, model="mlp(hidden=[4])"), data=data)
    assert len(result.records) == 2


def test_labels_may_start_anywhere_below_the_number_of_classes():
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    y = torch.full((30,), 2)
    data = askew.Dataset.from_tensors((x[:20], y[:20]), (x[20:], y[20:]), classes=["a", "b", "c"])
    assert askew.run(askew.Recipe(population="iid(clients=2)", rounds=1), data=data).model["fc2.bias"].shape == (3,)


@pytest.mark.parametrize(("model", "message"), [
    (Sentences(classes=4), r"the network gives \(4,\) outputs per example, but sentences has 3 classes"),
    (nn.Linear(7, 3), "does not take inputs of shape"),
    (nn.Sequential(nn.Linear(5, 3), nn.Flatten(0)), r"the network gives \(\) outputs"),
])
def test_a_network_that_does_not_fit_is_refused(model, message, tmp_path):
    with pytest.raises(askew.AskewError, match=message) as error:
        askew.run(askew.Recipe(population="iid(clients=2)"), data=sentences(), model=model, out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_population_drawn_for_other_data_is_refused():
    labels = np.zeros(500, np.int64)
    far = Population.of(Ownership.of([[0, 499]]), labels, 3)
    with pytest.raises(askew.AskewError, match="train index 499 is outside the 120 examples of sentences"):
        askew.run(askew.Recipe(), data=sentences(), model=Sentences(), population=far)
    other = Population.of(Ownership.of([[0, 1], [2, 3]]), np.array([0, 1, 2, 3]), 4)
    with pytest.raises(askew.AskewError, match="population: it has 4 classes, sentences has 3"):
        askew.run(askew.Recipe(), data=sentences(), model=Sentences(), population=other)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(askew.AskewError, match=f"device {device!r}") as error:
        askew.run(askew.Recipe(rounds=1), device=device)
    assert "\n" not in str(error.value)


def test_an_unknown_engine_is_refused():
    with pytest.raises(askew.AskewError, match="unknown engine 'sequentail'; did you mean 'sequential'"):
        askew.run(askew.Recipe(rounds=1), engine="sequentail")


@pytest.mark.parametrize("recipe", [
    askew.Recipe(rounds=1),
    askew.Recipe(rounds=1, population="iid(clients=10) + hold_out(0.1)", start="warm_up(until=1.0, epochs=1)"),
    askew.Recipe(rounds=1, population="iid(clients=10) + hold_out(0.1)", server=["mean()", "train_on_server()"]),
], ids=["plain", "warm_up", "train_on_server"])
def test_the_global_generators_are_left_as_they_were(recipe):
    torch.manual_seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    askew.run(recipe)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
