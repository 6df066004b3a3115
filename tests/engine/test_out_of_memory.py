"""Memory that runs out anywhere in a round: fewer clients at a time and the same result, or one line; never half."""

import gc
import shutil
import sysconfig
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from conform.forms import BATCHED, FORMS, LONG
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import askew
from askew.core.compat import tree_leaves
from askew.engine import sequential
from askew.engine.build import build_task
from askew.engine.graphed import GraphedSteps
from askew.engine.sequential import Sequential
from askew.engine.shortage import shortage
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import fedcd, scaffold
from askew.rounds.simulation import Simulation

pytestmark = pytest.mark.slow  # whole runs: tens of them

COMPILES = shutil.which("g++") is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()
PLACES = 40 if LONG else 2  # in a run at which an operation fails, the first and the last among them
BASE = askew.Recipe(population="power_law(clients=6, exponent=0.7, min_examples=5) + hold_out(0.95)", batch_size=10,
                    rounds=2)
RECIPES = {
    "remembers": scaffold(BASE),
    "several models": fedcd(BASE, milestones=[1]),
    "batch norm": BASE.replace(population="iid(clients=6) + hold_out(0.95)"),
    "a probe": BASE.replace(client="sgd(lr=0.1, momentum=0.9)", probes=["update_norms()"]),
}
# In the words of the devices, of numpy and of Python; each with what it asks for.
ERRORS = {
    "gpu": (lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has"), "20.00 MiB"),
    "cpu": (lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate "
                                 "memory: you tried to allocate 3221225472 bytes. Error code 12"), "3.00 GiB"),
    "numpy": (lambda: MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"), "7.45 GiB"),
    "python": (MemoryError, "an unknown amount"),
    "driver": (lambda: RuntimeError("CUDA error: out of memory"), "an unknown amount"),
    "library": (lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
                "an unknown amount"),
}


class Failing(TorchDispatchMode):
    """The operations whose numbers are in `at` raise what they would if their memory could not be had."""

    def __init__(self, at=(), kind="gpu"):
        super().__init__()
        self.at, self.kind, self.calls = frozenset(at), kind, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        if self.calls in self.at:
            raise ERRORS[self.kind][0]()
        return function(*args, **(kwargs or {}))


class Disturbed:
    """An engine whose own operations may fail; not those of whoever takes its chunks."""

    def __init__(self, engine, failing):
        self.engine, self.failing = engine, failing
        self.name, self.one_at_a_time, self.batches_lanes = engine.name, engine.one_at_a_time, engine.batches_lanes
        self.peers = engine.peers
        self.jobs = []

    def train(self, lanes):
        chunks = self.engine.train(lanes)
        while True:
            with self.failing:
                found = next(chunks, None)
            if found is None:
                return
            self.jobs += [(lanes[found[0]].round, found[0], job) for job in found[1].jobs]
            yield found


def run(name, form, failing, rounds=2):
    torch.manual_seed(0)
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))
    task = build_task(RECIPES[name], model=own if name == "batch norm" else None)
    engine = Disturbed(FORMS[form](task), failing)
    simulation = Simulation(task, engine)
    records = [simulation.advance() for _ in range(rounds)]
    return simulation, records, engine


def same(one, other):
    """Two runs: weights, what clients remember, records; in fp32, whose sums may come in another order."""
    (first, records, engine), (second, expected, undisturbed) = one, other
    assert sorted(map(repr, engine.jobs)) == sorted(map(repr, undisturbed.jobs)), "each client once"
    for got, wanted in zip(tree_leaves(contents(first)), tree_leaves(contents(second)), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    for got, wanted in zip(records, expected, strict=True):
        assert got.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, atol=1e-4, rtol=1e-3, err_msg=name)


def contents(simulation):
    state = simulation.state
    return [state["models"], state["pool"], state.get("memory", {})]


@pytest.fixture(scope="module", autouse=True)
def few_objects_to_look_through():
    """Every shortage has Python look for garbage; among all of torch that takes most of these tests' time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def undisturbed():
    """(recipe, form) -> the run, and how many operations the engine took."""
    found = {}

    def of(name, form):
        if (name, form) not in found:
            run(name, form, Failing())  # the first time, more is found out
            failing = Failing()
            found[name, form] = run(name, form, failing), failing.calls
        return found[name, form]

    return of


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("form", BATCHED)
def test_an_operation_that_finds_no_memory_anywhere_in_a_round(form, name, undisturbed):
    """At places from the first operation to the last, in whatever words."""
    whole, calls = undisturbed(name, form)
    for number, at in enumerate(np.linspace(1, calls - 1, PLACES).astype(int).tolist()):
        kind = list(ERRORS)[(number + len(form) + len(name)) % len(ERRORS)]
        with pytest.warns(UserWarning, match=r"at once do not fit the memory of the device; . at a time from") as told:
            found = run(name, form, Failing([at], kind))
        assert [ERRORS[kind][1] in str(w.message) for w in told if w.category is UserWarning] == [True], "one line"
        same(found, whole)


@pytest.mark.parametrize("form", ["eager", "graphed"])
def test_memory_that_runs_out_again_and_again(form, undisturbed):
    """6 at once, 3, 1: each for the rest of the run, in which nobody is trained twice."""
    whole, _ = undisturbed("remembers", form)
    with pytest.warns(UserWarning, match="do not fit") as told:
        found = run("remembers", form, Failing([30, 90]))
    assert [str(w.message).split("device; ")[1][:14] for w in told] == ["3 at a time fr", "1 at a time fr"]
    assert found[2].engine.chunk_jobs == 1
    same(found, whole)


@pytest.mark.slow
@pytest.mark.skipif(not COMPILES, reason="torch compiles for CPUs with g++ and Python's headers")
@pytest.mark.parametrize("at", [1, 4, 9])
def test_memory_that_runs_out_in_what_is_compiled(at, undisturbed, monkeypatch):
    whole, _ = undisturbed("a probe", "graphed")
    compiled, calls = GraphedSteps._compile, []

    def failing(self, function):
        made = compiled(self, function)

        def call(*args):
            calls.append(function)
            if len(calls) == at:
                raise ERRORS["gpu"][0]()
            return made(*args)

        return call

    monkeypatch.setattr(GraphedSteps, "_compile", failing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = run("a probe", "compiled", Failing())
    assert [str(w.message)[:36] for w in told if "engine" in str(w.message)] == ["engine vectorised: 6 clients at once"]
    assert found[2].engine.compiled
    same(found, whole)


@pytest.mark.parametrize("graphed", [False, True])
def test_what_a_failed_attempt_held_is_free_before_the_next(graphed, monkeypatch):
    """All that the engine had made by its last operation is gone when the device is asked to take back what is free."""
    run_steps, take_fewer, held, left = Vectorised._run, Vectorised._take_fewer, [], []

    def failing(self, work):
        trained = run_steps(self, work)
        if len(work.jobs) == 6:
            made = work.start, work.kept, work.streams, work.schedule.examples, trained.updates, trained.state
            held.extend(weakref.ref(v) for v in tree_leaves(made))
            raise ERRORS["gpu"][0]()
        return trained

    def watched(self, *args):
        take_fewer(self, *args)
        left.append(sum(v() is not None for v in held))

    monkeypatch.setattr(Vectorised, "_run", failing)
    monkeypatch.setattr(Vectorised, "_take_fewer", watched)
    task = build_task(RECIPES["remembers"])
    engine = Vectorised(task, graphed=graphed, compiled=False)
    with pytest.warns(UserWarning, match="6 clients at once"):
        Simulation(task, engine).advance()
    assert len(held) > 10
    assert left == [0]


@pytest.mark.parametrize(("form", "kind"), [*((form, "cpu") for form in (*BATCHED, "parallel", "sequential")),
                                            *(("eager", kind) for kind in ERRORS if kind != "cpu")])
def test_a_client_that_does_not_fit_alone_is_told_of_in_one_line(form, kind, monkeypatch):
    """And nothing has changed: with the memory there again, the run goes on as it would have."""
    task = build_task(BASE)
    engine = {**FORMS, "sequential": Sequential}[form](task)
    simulation = Simulation(task, engine)
    simulation.advance()
    before = {name: v.clone() for name, v in simulation.view().params.items()}

    def never(*args, **options):
        raise ERRORS[kind][0]()

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(Vectorised, "_run", never)
        patch.setattr(sequential, "train_locally", never)
        with pytest.raises(askew.AskewError) as caught:
            simulation.advance()
    line = str(caught.value)
    assert line.startswith(f"engine {engine.name}: client ")
    assert "does not fit the memory of the device (cpu): " + ERRORS[kind][1] + " more was asked for; take " in line
    assert line.endswith("a smaller batch_size (now 10), a smaller model, or a device with more memory")
    assert ("engine sequential" in line) is (form in ("parallel", "sequential"))
    assert "\n" not in line
    assert simulation.round == 1
    assert all(torch.equal(v, before[name]) for name, v in simulation.view().params.items())
    simulation.advance()
    again = Simulation(task, Sequential(task))
    again.advance()
    again.advance()
    for name, v in again.view().params.items():
        torch.testing.assert_close(simulation.view().params[name], v, atol=1e-5, rtol=1e-4)


def test_other_errors_are_no_shortage():
    for error in (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("out of memory"),
                  RuntimeError("out of resource: shared memory, Required: 300000, Hardware limit: 232448")):
        assert shortage(error) is None


def test_a_shortage_behind_another_error_is_found():
    """A capture that is broken off, or a compiler, raises its own upon it."""

    def capture():
        try:
            raise ERRORS["gpu"][0]()
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(RuntimeError, match="operation failed") as caught:
        capture()
    assert shortage(caught.value) == "20.00 MiB"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("way", ["eager", "graphed", "compiled"])
def test_a_gpu_whose_memory_runs_out(way):
    """64 clients of 4 M weights, with room for some of them: the reference's weights; with room for none: one line."""
    x, y = torch.randn(1_280, 64, generator=torch.Generator().manual_seed(0)), torch.arange(1_280) % 10
    data = askew.Dataset.from_tensors((x, y), (x[:64], y[:64]))
    recipe = askew.Recipe(population="iid(clients=64)", model="mlp(hidden=[2000, 2000])", batch_size=10, rounds=2,
                          client="sgd(lr=0.01)")
    task = build_task(recipe, data=data, device="cuda")
    alone = Simulation(task, Sequential(task))
    for _ in range(2):
        alone.advance()
    wanted = {name: v.clone() for name, v in alone.view().params.items()}
    del alone
    torch.cuda.empty_cache()
    total, used = torch.cuda.mem_get_info()[1], torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((used + 1.5 * 2**30) / total)
    try:
        engine = Vectorised(task, chunk_jobs=64, graphed=way != "eager", compiled=way == "compiled")
        simulation = Simulation(task, engine)
        with pytest.warns(UserWarning, match="64 clients at once do not fit the memory of the device; 32 at a") as told:
            simulation.advance()
        simulation.advance()
        assert not [str(w.message) for w in told if "cannot be trained as asked" in str(w.message)]
        assert 1 <= engine.chunk_jobs < 64
        for name, v in wanted.items():
            torch.testing.assert_close(simulation.view().params[name], v, atol=1e-4, rtol=1e-3)
        del engine, simulation
        gc.collect()
        torch.cuda.empty_cache()
        few = Vectorised(task, chunk_jobs=4, graphed=way != "eager", compiled=way == "compiled")
        simulation = Simulation(task, few)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**20) / total)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(askew.AskewError, match=r"client \d+ alone does not fit the memory of the device"):
                simulation.advance()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
