"""Every piece of every kind that an engine meets, in a run of two rounds: the same numbers in every form."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from conform.forms import FORMS, LONG, apart, assert_same_training, cases, one_by_one, rounds, train
from conform.loaders import write_all
from conform.pieces import PIECES, recipe_with

import askew
from askew.core.dataset import Dataset
from askew.engine.build import build_task
from askew.engine.sequential import Sequential

KINDS = ["preprocess", "client", "schedule", "server", "pool", "start", "probe", "adversity", "guard", "method"]
CALLS = {f"{kind}: {call}": (kind, call) for kind in KINDS for calls in PIECES[kind].values() for call in calls}
# Rounding to a few levels and counting signs turn a difference of 1e-7 into a step, for a coordinate here and there.
STEPS = ("quantize", "mask_by_sign_agreement", "sign_agreement", "ozdayi_combination", "clone_and_delete")
INPUTS = {"mlp": (1, 8, 8), "small_cnn": (1, 8, 8), "mcmahan_mnist_cnn": (1, 28, 28), "mcmahan_cifar_cnn": (3, 12, 12),
          "fednnnn_mnist_cnn": (1, 28, 28), "fednnnn_cifar_cnn": (3, 8, 8), "fedcd_cnn": (3, 8, 8),
          "resnet20_fixup": (3, 8, 8), "resnet20": (3, 8, 8), "hello_edge_cnn": (1, 50, 10),
          "bag_of_words": (9,)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_all(folder)
    return folder


def run(make, kind, call):
    recipe = recipe_with(kind, call)
    with torch.random.fork_rng(devices=[]):
        simulation = rounds(make, build_task(recipe), 0)
        start, records = simulation.view().params, []
        for _ in range(recipe.rounds):
            records.append(simulation.advance())
    return start, simulation.view().params, records


@cache
def reference(kind, call):
    return run(Sequential, kind, call)


def assert_same_record(got, expected, tolerance):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, float | list) and name not in ("cloned", "deleted"):
            assert got[name] == pytest.approx(value, rel=tolerance, abs=0.01 if "accuracy" in name else 1e-5), name
        else:
            assert got[name] == value, name


# What these kinds do is done once a client or a round, by the simulation: of the engine's forms they see but how many
# clients come at once, of which two are the harder case. All at once is left to the long run.
BESIDE_TRAINING = ("server", "start", "probe", "guard")


def forms_of(number):
    kind, _ = list(CALLS.values())[number]
    eager = ["eager"] if LONG or kind not in BESIDE_TRAINING else []
    return [*eager, "graphed, two at a time", "compiled"]


@pytest.mark.parametrize(("name", "form"), cases(CALLS, forms_of))
def test_every_piece_in_every_form(name, form, files):
    """Two rounds: the model has moved the same way, and the records (losses, probes, bytes, models) are the same."""
    kind, call = CALLS[name]
    call = call.replace("{files}", str(files))
    tolerance = 2e-2 if any(word in call for word in STEPS) else 1e-3
    start, end, records = reference(kind, call)
    got_start, got_end, recorded = run(FORMS[form], kind, call)
    assert all(torch.equal(got_start[key], v) for key, v in start.items())
    moved = {key: v - start[key] for key, v in end.items()}
    assert apart({key: got_end[key] - start[key] for key in moved}, moved) < tolerance
    for got, expected in zip(recorded, records, strict=True):
        assert_same_record(got, expected, tolerance)


def model_task(call):
    """Two clients of 6 and 4 examples, one batch each: two steps of large networks on small inputs."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(14, *INPUTS[call.partition("(")[0]], generator=generator)
    data = Dataset.from_tensors((x[:10], torch.arange(10)), (x[10:], torch.arange(4)))
    return build_task(askew.Recipe(model=call, population="power_law(clients=2, min_examples=4)", epochs=2,
                                   batch_size=0, client="sgd(lr=0.001)"), data=data)


@cache
def model_reference(call):
    return one_by_one(model_task(call))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases([call for calls in PIECES["model"].values() for call in calls],
                                                 forms=["eager", "graphed", "compiled"]))
def test_every_network_in_every_form(name, form):
    # On noise, ReLU and max pooling turn rounding into flips, which BatchNorm passes on to all: hence 0.5%.
    assert_same_training(train(FORMS[form], model_task(name)), model_reference(name), tolerance=5e-3)


def test_every_network_has_inputs():
    assert set(INPUTS) == set(PIECES["model"])
