"""Every family of networks in every form: each client's update as it is one by one, or a fallback that says so."""

from __future__ import annotations

import warnings
from functools import cache

import pytest
import torch
from conform.federations import of_sizes
from conform.forms import FORMS, LONG, apart, assert_same_training, cases, one_by_one, train
from conform.modules import RARE
from conform.networks import NETWORKS, build, data_of

import askew
from askew.engine.batched import CannotBatch
from askew.engine.build import build_task

# B = 4, E = 2: 2 to 6 steps, last batches of 1 to 4 examples; where a lone example has no statistics, of 2 to 4.
SIZES = {True: [9, 4, 12, 6, 7], False: [11, 4, 12, 6, 7]}
# CI leaves to the long run what the random networks and the recipes show as well; what is compiled, too: convolution,
# BatchNorm, dropout and an LSTM are in one recipe of test_forms.py, which takes as long to compile as one layer does.
TRIED = ["parallel", "eager", "graphed", *(["graphed, two at a time"] if LONG else []), "compiled"]
LOW = ["graphed", *(["eager"] if LONG else [])]
MUST_BATCH = [name for name, network in NETWORKS.items() if network.batched]


def recipe_of(name, epochs=2):
    return askew.Recipe(batch_size=4, epochs=epochs, rounds=1, client=f"sgd(lr={NETWORKS[name].lr}, momentum=0.5)")


def inputs_of(name):
    data = data_of(NETWORKS[name].data)
    return {"data": data, "population": of_sizes(data, SIZES[NETWORKS[name].lone]), "model": build(name)}


def task_of(name):
    return build_task(recipe_of(name), **inputs_of(name))


@cache
def reference(name):
    with torch.random.fork_rng(devices=[]):
        return one_by_one(task_of(name))


@cache
def low_precision(name):
    """One by one under torch's autocast; uncached, since the weights change in place within it."""
    with torch.random.fork_rng(devices=[]), torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return one_by_one(task_of(name))


@cache
def reference_run(name):
    return askew.run(recipe_of(name, epochs=1), engine="sequential", **inputs_of(name))


def test_a_rare_value_is_rare():
    """Else nothing would be shown by the networks that react to it."""
    x = data_of("vectors").train.x
    assert x[:8].max() < RARE < x.max()
    assert any(x[part].max() > RARE for part in of_sizes(data_of("vectors"), SIZES[True]).train)


@pytest.mark.parametrize(("name", "form"), cases([n for n, net in NETWORKS.items() if net.batched is not False],
                                                 forms=TRIED))
def test_each_client_trains_as_it_does_alone(name, form):
    """And where it must batch, without a word: an engine that falls back to a plainer way has a warning about it."""
    expected = reference(name)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = task_of(name)
        try:
            got = train(FORMS[form], task)
        except CannotBatch:
            if NETWORKS[name].batched:
                raise
            return  # what then happens is what the next test is about
    assert_same_training(got, expected)
    if NETWORKS[name].batched:
        assert not [str(w.message) for w in caught if "engine vectorised" in str(w.message)]


def weights(result):
    return {name: v for name, v in result.model.items() if v.is_floating_point()}


# Those that must batch, and then do not fall back, are in the test above; the long run has them here, too.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [
    (name, engine) for name, network in NETWORKS.items() for engine in ("vectorised", "parallel", "auto")
    if not network.batched or (engine == "vectorised" and (LONG or name == "lstm"))])
def test_an_engine_that_cannot_take_a_network_falls_back_with_one_line(name, engine):
    """A round by name: the reference's weights, on whatever engine; another engine than asked for says why, once."""
    expected = reference_run(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = askew.run(recipe_of(name, epochs=1), engine=engine, **inputs_of(name))
    said = [str(w.message) for w in caught if issubclass(w.category, UserWarning) and "sequential" in str(w.message)]
    used = result.simulation.engine.name
    if engine != "auto":
        assert len(said) == (used != engine), (used, [str(w.message) for w in caught])
        assert all("\n" not in line for line in said)
    if engine == "vectorised" and NETWORKS[name].batched is not None:
        assert (used == "vectorised") is NETWORKS[name].batched
    start = build(name).state_dict()
    moved = {key: v - start[key] for key, v in weights(expected).items()}
    assert apart({key: v - start[key] for key, v in weights(result).items()}, moved) < 1e-3
    assert result.records[-1]["loss"] == pytest.approx(expected.records[-1]["loss"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("form", LOW)
@pytest.mark.parametrize("name", [name for name in MUST_BATCH if NETWORKS[name].bf16])
def test_bf16_stays_near(name, form):
    """8 bits of mantissa: as near to fp32 as torch's autocast brings the network one by one, and not fp32 itself."""
    with torch.random.fork_rng(devices=[]):
        got = train(FORMS[form], task_of(name), precision="bf16")
    for client, expected in reference(name).items():
        plain = apart(low_precision(name)[client].update, expected.update)
        assert 1e-5 < apart(got[client].update, expected.update) < 0.03 + 2 * plain
        assert plain < 0.25, "training is chaotic here: nothing is shown"
        assert ({key: v.dtype for key, v in got[client].update.items()}
                == {key: v.dtype for key, v in expected.update.items()})
