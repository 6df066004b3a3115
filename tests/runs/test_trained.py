"""Trained models taken out of their folders: the same outputs as in the run, whatever network, steps and method."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import askew
from askew.core import registry
from askew.engine.evaluate import outputs
from askew.runs.model_file import FORMAT, About, read_about

pytestmark = pytest.mark.slow  # whole runs: tens of them

SMALL = askew.Recipe(rounds=2, population="dirichlet(clients=4, alpha=0.5)", model="mlp(hidden=[8])", batch_size=50)
CNN = SMALL.replace(model="small_cnn()")
METHODS = {
    "bytes": SMALL,
    "normalised": SMALL.replace(preprocess=["normalise()"]),
    "normalised, given": SMALL.replace(preprocess=["normalise(mean=0.3, std=[0.4])"]),
    "augmented": CNN.replace(preprocess=["random_crop(padding=1)", "random_flip()", "normalise()"]),
    "cropped": CNN.replace(preprocess=["tf_cifar(size=6)"]),
    "another view": askew.methods.fednnnn(SMALL),
    "own layers": askew.methods.fedper(SMALL),
    "own normalisation": askew.methods.fedbn(SMALL.replace(model="fednnnn_cifar_cnn()", rounds=1)),
    "stopped early": SMALL.replace(rounds=9, population="iid(clients=3) + validation(0.2)", client="sgd(lr=1e-9)",
                                   stop_after_no_gain=1),
    "wrong labels": SMALL.replace(adversity=["flip_labels(0.5)"]),
    "several models": askew.methods.fedcd(SMALL.replace(rounds=4), milestones=[1]),
    "several models, own layers": askew.methods.fedcd(askew.methods.fedper(SMALL.replace(rounds=4)), milestones=[1]),
}


def trained(recipe: askew.Recipe, folder: Path, **given: Any) -> tuple[askew.Result, Any]:
    result = askew.run(recipe, out=folder, **given)
    return result, askew.load(folder, **{name: v for name, v in given.items() if name == "model"})


@pytest.mark.parametrize("recipe", METHODS.values(), ids=METHODS)
def test_each_client_has_the_outputs_that_it_had_in_the_run(recipe: askew.Recipe, tmp_path: Path) -> None:
    result, model = trained(recipe, tmp_path / "run")
    simulation = result.simulation
    assert simulation is not None
    task, x = simulation.task, simulation.task.data.test.x
    for client, number in enumerate(task.pool.choice(simulation.pool_state)):
        state = task.client.enter(simulation.view(number), simulation.memory.row(number, client))
        expected = torch.cat(list(outputs(task, state, x)))
        torch.testing.assert_close(model.outputs(x.numpy(), client=client), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model.module_for(str(client))(x), expected, rtol=1e-4, atol=1e-5)
    if model.about.personal is None and model.about.choice is None:
        assert float((model.predict(x) == task.data.test.y.numpy()).mean()) == pytest.approx(result.accuracy, abs=1e-9)
    assert len(repr(model)) < 300


def test_there_are_pools_and_own_tensors_among_them(tmp_path: Path) -> None:
    _, model = trained(METHODS["several models, own layers"], tmp_path / "run")
    assert len(model.about.models) > 1
    assert model.about.personal == ("fc2.weight", "fc2.bias")
    assert len({tuple(model.module_for(c).network.fc2.bias.tolist()) for c in model.clients}) == 4


QUICK = ("bag_of_words", "hello_edge_cnn", "mlp", "resnet20_fixup", "small_cnn")
SHAPES = {"hello_edge_cnn": (1, 50, 10), "mcmahan_mnist_cnn": (1, 28, 28), "fednnnn_mnist_cnn": (1, 28, 28),
          "mcmahan_cifar_cnn": (3, 24, 24), "mlp": (5,), "bag_of_words": (5,)}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in registry.names("model")
    if registry.find("model", name).__module__.startswith("askew.")])
def test_every_network_comes_back(name: str, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = torch.rand(8, *SHAPES.get(name, (3, 32, 32)), generator=draw), torch.arange(8) % 2
    data = askew.Dataset.from_tensors((x, y), (x, y), classes=("no", "yes"))
    recipe = SMALL.replace(population="iid(clients=2)", model=f"{name}()", rounds=1, batch_size=0)
    result, model = trained(recipe, tmp_path / "run", data=data)
    assert set(model.predict(x)) <= {"no", "yes"}
    assert float((model.predict(x) == np.array(["no", "yes"])[y]).mean()) == pytest.approx(result.accuracy)


TARGETS: dict[str, tuple[torch.Tensor, str, tuple[int, ...]]] = {
    "numbers": (torch.rand(12, 1), "mean_squared_error()", (12,)),
    "labels": ((torch.rand(12, 3) > 0.5).float(), "binary_cross_entropy()", (12, 3)),
    "classes": (torch.arange(12) % 3, "cross_entropy()", (12,)),
    "tokens": (torch.arange(48).view(12, 4) % 5, "next_token()", (12, 4)),
}


@pytest.mark.parametrize("targets", TARGETS)
def test_what_is_predicted_looks_like_what_was_learnt(targets: Any, tmp_path: Path) -> None:
    y, objective, shape = TARGETS[targets]
    x = torch.arange(48).view(12, 4) % 5 if targets == "tokens" else torch.rand(12, 4)
    data = askew.Dataset.from_tensors((x, y), (x, y), targets=targets)
    network = nn.Sequential(nn.Embedding(5, 6), nn.Linear(6, 5)) if targets == "tokens" else None
    recipe = SMALL.replace(population="iid(clients=2)", objective=objective, rounds=1)
    result, model = trained(recipe, tmp_path / "run", data=data, model=network)
    found = model.predict(x)
    assert found.shape == shape
    measures = result.objective.measures(model.outputs(x), data.test.y)
    assert float(measures[result.headline].float().mean()) == pytest.approx(result.score, rel=1e-5)
    if targets == "numbers":
        with pytest.raises(askew.AskewError, match="the model predicts numbers, which have no probabilities"):
            model.predict_proba(x)
        return
    chances = model.predict_proba(x)
    assert chances.min() >= 0
    if targets == "labels":
        assert ((chances > 0.5) == found).all()
    else:
        np.testing.assert_allclose(chances.sum(axis=-1), 1, rtol=1e-5)
        assert (chances.argmax(axis=-1) == found).all()


class Twin(nn.Module):
    """A network of one's own, with a weight that has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = self.first
        self.out = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.second(self.first(x.flatten(1)).relu()).relu())


@pytest.mark.parametrize("population", ["natural()", "natural() + hold_out(0.2) + share(0.5)", "iid(clients=3)",
                                        "natural() + subset(0.5)", "natural(clients=2)"])
@pytest.mark.parametrize("adversity", [[], ["flip_labels(1.0)"]], ids=["well", "all labels wrong"])
def test_clients_have_their_names(population: str, adversity: list[str], tmp_path: Path) -> None:
    sites = ["north", "south", "east"]
    rows = "".join(f"{i},{sites[i % 3]},{i % 2}\n" for i in range(60))
    (tmp_path / "t.csv").write_text(f"a,site,y\n{rows}")
    data = f"table({str(tmp_path / 't.csv')!r}, label='y', client='site')"
    _, model = trained(SMALL.replace(data=data, population=population, adversity=adversity), tmp_path / "run")
    if population.startswith("iid"):
        assert model.clients == ("0", "1", "2")
    else:
        assert set(model.clients) <= set(sites)
        assert len(model.clients) == (2 if "clients=2" in population else 3)


def test_a_network_of_ones_own_must_be_given(tmp_path: Path, refused: Any) -> None:
    recipe = askew.methods.fedper(SMALL, names=["first.*"])
    result, model = trained(recipe, tmp_path / "run", model=Twin())
    assert result.simulation is not None
    for client, score in enumerate(result.simulation.device_scores()):
        counts = result.simulation.task.population.counts[client]
        data = result.simulation.task.data
        right = model.predict(data.test.x, client=client) == data.test.y.numpy()
        by_class = [right[data.test.y.numpy() == c].mean() for c in range(10)]
        assert counts @ by_class / counts.sum() == pytest.approx(score)
    with refused("trained a network of your own .Twin., and no file runs code: give it, askew.load.folder, model=Twin"):
        askew.load(tmp_path / "run")
    with refused("are of another network: .* is missing there"):
        askew.load(tmp_path / "run", model=nn.Linear(64, 10))


def test_by_hand_in_plain_pytorch(tmp_path: Path) -> None:
    """All that is needed stands in the two files: weights, and the numbers of the preprocessing."""
    result, _ = trained(METHODS["normalised"], tmp_path / "run")
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    weights = load_file(tmp_path / "run" / "model.safetensors")
    network.load_state_dict({name.replace("fc1", "1").replace("fc2", "3"): v for name, v in weights.items()})
    numbers = about["preprocess"][0]["arguments"]
    data = askew.data.load("digits")
    x = (data.test.x / about["divide_by"] - numbers["mean"][0]) / numbers["std"][0]
    assert float((network(x).argmax(1) == data.test.y).float().mean()) == pytest.approx(result.accuracy)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    askew.run(SMALL, out=folder)
    return folder


BAD_INPUTS: dict[str, tuple[Any, str]] = {
    "floats for bytes": (np.zeros((2, 1, 8, 8)), "inputs are float64, and the data were stored as uint8 .0..255."),
    "another shape": (np.zeros((2, 8, 8), np.uint8), r"inputs of shape \[2, 8, 8\], where \[examples, 1, 8, 8\]"),
    "one alone": (np.zeros((1, 8, 8), np.uint8), r"for one example write x\[None\]"),
    "none": (np.zeros((0, 1, 8, 8), np.uint8), r"inputs of shape \[0, 1, 8, 8\]"),
    "beyond bytes": (np.full((2, 1, 8, 8), 256), "inputs hold 256..256, which uint8 cannot"),
    "below bytes": (np.full((2, 1, 8, 8), -1), "inputs hold -1..-1"),
    "words": (np.full((2, 1, 8, 8), "a"), "is neither inputs"),
    "nothing": (None, "is neither inputs"),
    "ragged": ([[1, 2], [3]], "is neither inputs"),
    "complex": (np.zeros((2, 1, 8, 8), complex), "inputs are complex128"),
    "a table": ([{"a": 1}], "the model was not trained on a table; give inputs as arrays"),
    "a missing file": ("nowhere.csv", "'nowhere.csv' cannot be read"),
    "a number": (3, "inputs of shape"),
}


@pytest.mark.parametrize(("x", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_inputs_that_are_not_the_models_are_refused(x: Any, message: str, finished: Path, refused: Any) -> None:
    for call in (askew.load(finished).predict, askew.load(finished).predict_proba):
        with refused(message):
            call(x)


def test_arrays_of_any_shape_and_type_are_predicted_or_one_line(finished: Path) -> None:
    """What is taken is what is stored: whole numbers 0..255 of the right shape, and nothing else."""
    model, taken = askew.load(finished), 0
    for case in range(300):
        draw = Random(f"array {case}")
        shape = [draw.choice((0, 1, 2, 5)), *draw.choice(((1, 8, 8), (1, 8, 8), (8, 8), (64,), (1, 8, 9), (), (1,)))]
        low, high = draw.choice(((0, 256), (0, 256), (-1, 3), (0, 300), (255, 256)))
        kind = draw.choice((np.uint8, np.int8, np.int64, np.uint64, np.int32, np.float32, np.float16, bool, complex))
        values = np.random.default_rng(case).integers(low, high, shape)
        with np.errstate(all="ignore"):
            x = values.astype(kind)
        right = shape[1:] == [1, 8, 8] and shape[0] > 0 and x.dtype.kind in "iub" and x.min() >= 0 and x.max() < 256
        form = draw.choice((lambda v: v, lambda v: v.tolist(), lambda v: np.asfortranarray(v)))(x)
        if right:
            taken += 1
            assert (model.predict(form) == model.predict(torch.from_numpy(x.astype(np.uint8)))).all(), case
        else:
            with pytest.raises(askew.AskewError) as refusal:
                model.predict(form)
            assert "\n" not in str(refusal.value), case
    assert taken > 20


def test_whole_numbers_of_any_type_are_bytes(finished: Path) -> None:
    model, x = askew.load(finished), askew.data.load("digits").test.x[:5]
    expected = model.predict(x)
    for same in (x.numpy(), x.to(torch.int64), x.numpy().tolist(), x.to(torch.int16)):
        assert (model.predict(same) == expected).all()
    with pytest.raises(askew.AskewError, match="unknown client 'north'; known: 0, 1, 2, 3"):
        model.predict(x, client="north")


def test_folders_that_hold_no_model_to_use(finished: Path, tmp_path: Path, refused: Any) -> None:
    with refused("is not a run folder: it has no recipe.toml"):
        askew.load(tmp_path)
    with refused("is not a run folder"):
        askew.load(finished / "model.json")
    copy = tmp_path / "run"

    def again() -> Path:
        shutil.rmtree(copy, ignore_errors=True)
        return Path(shutil.copytree(finished, copy))

    (again() / "model.json").unlink()
    with refused("is of an earlier version of askew, which did not write model.json"):
        askew.load(copy)
    summary = json.loads((again() / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "stopped": "interrupted"}))
    with refused("the run was interrupted; continue with: askew resume"):
        askew.load(copy)
    (again() / "summary.json").unlink()
    with refused("the run has not ended"):
        askew.load(copy)
    about = json.loads((again() / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**about, "format": FORMAT + 1}))
    with refused("written by a newer version of askew .format 2, known: 1."):
        askew.load(copy)
    (again() / "model.json").write_text(json.dumps({**about, "classes": about["classes"][::-1]}))
    with refused("model.json' is damaged: its bytes have changed"):
        askew.load(copy)


def test_what_is_written_is_what_is_read(finished: Path) -> None:
    about = read_about(finished / "model.json")
    assert About.from_mapping(json.loads(json.dumps(about.as_mapping()))) == about
    for name in about.as_mapping():
        if name != "format":
            with pytest.raises(askew.AskewError):
                About.from_mapping({k: v for k, v in about.as_mapping().items() if k != name})
        with pytest.raises(askew.AskewError):
            About.from_mapping({**about.as_mapping(), name: object()})


def test_a_file_of_grey_images_is_predicted_as_it_was_trained_on(tmp_path):
    images = np.random.Generator(np.random.Philox(0)).integers(0, 256, (20, 5, 6), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=images, y=np.arange(20) % 2)
    askew.run(askew.Recipe(data=f"npz({str(tmp_path / 'a.npz')!r})", population="iid(clients=2)", rounds=1,
                           model="mlp(hidden=[2])"), out=tmp_path / "run")
    model = askew.load(tmp_path / "run")
    assert model.predict(str(tmp_path / "a.npz")).tolist() == model.predict(images[:, None]).tolist()
