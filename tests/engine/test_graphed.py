"""The engine for GPUs equals the reference: on a CPU its fixed buffers, padding, keys and idle
clients, on a GPU its graphs, too."""

import shutil
import sysconfig
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from conform.forms import LONG

from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import fedcd, fednnnn, fedprox, projected, server_training
from askew.rounds.simulation import Simulation

pytestmark = pytest.mark.slow  # whole runs: tens of them

COMPILES = shutil.which("g++") is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
WAYS = [pytest.param("cpu", False, id="cpu"), pytest.param("cuda", False, id="cuda", marks=on_a_gpu),
        pytest.param("cuda", True, id="cuda, compiled", marks=on_a_gpu)]
BASE = Recipe(population="dirichlet_per_class(clients=8, alpha=0.5) + subset(0.15)", batch_size=7, epochs=2)
RECIPES = {
    "equal sizes": BASE.replace(population="iid(clients=8) + subset(0.15)"),
    "unequal sizes": BASE,
    "all of sgd": BASE.replace(client="sgd(lr=decay(0.1, 0.9), momentum=0.9, weight_decay=0.01)"),
    "augmented": BASE.replace(preprocess=["random_crop(padding=1)", "random_flip()", "normalise()"],
                              model="small_cnn()"),
    "fedprox": fedprox(BASE, mu=0.1),
    "projected": projected(BASE, radius=6.0, noise=0.01),
    "fednnnn": fednnnn(BASE),
    "server training": server_training(BASE),
    "fedcd": fedcd(BASE, milestones=[1, 2]),
    "quantised": BASE.replace(client=[*BASE.client, "quantize(8)"]),
    "strided and residual": BASE.replace(population="iid(clients=4) + hold_out(0.9)", model="resnet20_fixup()",
                                         preprocess="normalise()"),
    # At larger rates this network is chaotic on 8x8 digits: weights that differ by 1e-7 end up percents apart.
    "batch norm, unequal sizes": BASE.replace(model="fednnnn_cifar_cnn()",
                                              population="power_law(clients=6) + hold_out(0.8)", batch_size=20,
                                              client="sgd(lr=0.001)"),
    "clipped, with momentum": BASE.replace(client=["clip_gradient(0.5)", "sgd(lr=0.05, momentum=0.9, nesterov=True)"]),
    "normalised locally": BASE.replace(model="mcmahan_cifar_cnn()", population=BASE.population + "hold_out(0.7)"),
}
# Networks that train for seconds: on a CPU in the long run only, which has them in the other tables, too
LARGE = ["strided and residual", "batch norm, unequal sizes"]
CASES = [pytest.param(*way.values, name, id=f"{way.id}-{name}", marks=way.marks) for way in WAYS for name in RECIPES
         if LONG or way.id != "cpu" or name not in LARGE]


def trained(recipe, device, engine, rounds=3, **options):
    task = build_task(recipe, device=device)
    simulation = Simulation(task, engine(task, **options))
    for _ in range(rounds):
        simulation.advance()
    return {name: v.cpu() for name, v in simulation.view().params.items()}


@cache
def reference(name, rounds=3):
    """One by one on a CPU: what all forms are compared with."""
    return trained(RECIPES[name], "cpu", Sequential, rounds)


def relative(a, b):
    return float((sum(((a[k] - b[k]) ** 2).sum() for k in a) / sum((a[k] ** 2).sum() for k in a)).sqrt())


@pytest.mark.parametrize(("device", "compiled", "name"), CASES)
def test_the_graphed_engine_equals_the_reference(name, device, compiled):
    assert relative(reference(name), trained(RECIPES[name], device, Vectorised, graphed=True, compiled=compiled)) < 1e-4


@pytest.mark.slow
@pytest.mark.skipif(LONG and not COMPILES,
                    reason="torch compiles for CPUs with g++ and Python's headers, which are not installed")
def test_a_network_is_compiled_as_if_there_had_been_no_other(monkeypatch):
    """torch would let the axes vary in which this network's batches and weights differ from the last one's, and then
    may fail to compile it. What it is given to compile is looked at, and run as it is; the long run compiles it."""
    name, varying = "batch norm, unequal sizes", []

    def look(graph, inputs):
        varying.extend(node.name for node in graph.graph.nodes if node.op == "placeholder"
                       and isinstance(value := node.meta.get("example_value"), torch.Tensor)
                       and any(isinstance(length, torch.SymInt) for length in value.shape[1:]))
        return graph

    if not LONG:
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=look))
    trained(BASE, "cpu", Vectorised, rounds=1, graphed=True, compiled=True)
    compiled = trained(RECIPES[name], "cpu", Vectorised, rounds=1, graphed=True, compiled=True)
    assert relative(reference(name, 1), compiled) < 1e-4
    assert not varying, "of all axes, only the first, that of the clients, may vary"


def test_a_compiler_that_errs_is_found_out(monkeypatch):
    """The first layer's gradient lost, as it happened: the network is run as it is, with a word about it."""

    def wrong(function):
        def call(*args):
            out = function(*args)
            if not isinstance(out, torch.Tensor) or len(args) != 7:  # of all that is compiled, the losses
                return out
            x, y, counts, params, buffers, drop, padded = args
            frozen = {name: v.detach() if name == next(iter(params)) else v for name, v in params.items()}
            return function(x, y, counts, frozen, buffers, drop, padded)

        return call

    uncompiled = trained(BASE, "cpu", Vectorised, graphed=True, compiled=False)
    monkeypatch.setattr(torch, "compile", wrong)
    with pytest.warns(RuntimeWarning, match="wrong gradients of this network"):
        same = trained(BASE, "cpu", Vectorised, graphed=True, compiled=True)
    assert all(torch.equal(uncompiled[name], v) for name, v in same.items())


@pytest.mark.parametrize("name", ["equal sizes", "augmented", "fedcd", "batch norm, unequal sizes"])
def test_low_precision_stays_near(name):
    """bf16 has 8 bits: after a round, weights agree to some hundredths of their length."""
    low = trained(RECIPES[name], "cpu", Vectorised, rounds=1, graphed=True, compiled=False, precision="bf16")
    assert 1e-6 < relative(reference(name, 1), low) < 0.03


@pytest.mark.parametrize(("device", "compiled"), WAYS)
def test_chunks_of_another_size_reuse_what_is_there(device, compiled):
    """Three clients at a time out of eight: chunks of three, three and two."""
    recipe = RECIPES["unequal sizes"]
    whole = trained(recipe, device, Vectorised, graphed=True, compiled=compiled)
    assert relative(whole, trained(recipe, device, Vectorised, graphed=True, compiled=compiled, chunk_jobs=3)) < 1e-5


@on_a_gpu
def test_same_seed_same_bits():
    first, second = (trained(RECIPES["augmented"], "cuda", Vectorised, precision="bf16") for _ in range(2))
    assert all(torch.equal(first[k], second[k]) for k in first)
