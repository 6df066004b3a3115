"""How many threads a run uses: by rule, the same bits with any number, and afterwards as many as before."""

import json
import threading
import warnings
from typing import ClassVar

import pytest
import torch
from torch import nn

import askew
from askew.core.dataset import Dataset
from askew.engine import evaluate, threads
from askew.engine.build import build_task
from askew.engine.choice import ENGINES, make_engine
from askew.engine.local import train_locally
from askew.engine.parallel import Parallel
from askew.engine.threads import Threads, forward_flops, threads_for, use_threads
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import server_training
from askew.rounds.simulation import Simulation
from askew.runs.compare import compare
from askew.runs.sweep import sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

SMALL = askew.Recipe(rounds=2, population="shards(clients=10, shards_per_client=2) + subset(0.15)")


@pytest.fixture(autouse=True)
def allowed():
    """Three threads, which is what no rule gives; puts back what it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def test_threads_are_put_back_whatever_happens():
    with use_threads(1):
        assert torch.get_num_threads() == 1
        with use_threads(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    with pytest.raises(ZeroDivisionError), use_threads(2):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 3


class Sentences(nn.Module):
    """A linear layer at each of five places, a GRU over them, scores."""

    def __init__(self):
        super().__init__()
        self.place, self.recurrent, self.scores = nn.Linear(4, 6), nn.GRU(6, 8, batch_first=True), nn.Linear(8, 10)

    def forward(self, x):
        return self.scores(self.recurrent(self.place(x))[0][:, -1])


@pytest.mark.parametrize(("shape", "model", "expected"), [
    ((64,), "mlp(hidden=[64])", 2 * (64 * 64 + 64 * 10)),
    # 8x8 and 4x4 places of the convolutions, then 128 values
    ((1, 8, 8), "small_cnn()", 2 * (9 * 16 * 64 + 9 * 16 * 32 * 16 + 128 * 64 + 64 * 10)),
    ((5, 4), Sentences(), 2 * (5 * 4 * 6 + 5 * 24 * (6 + 8) + 8 * 10)),
], ids=["mlp", "cnn", "recurrent"])
def test_the_operations_of_a_forward_pass_by_hand(shape, model, expected):
    x, y = torch.rand(40, *shape), torch.arange(40) % 10
    named = {"model": model} if isinstance(model, str) else {}
    task = build_task(askew.Recipe(population="iid(clients=2)", **named), data=Dataset.from_tensors((x, y), (x, y)),
                      model=None if named else model)
    assert forward_flops(task) == expected


def test_counting_leaves_the_network_as_it_was():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 10))
    task = build_task(askew.Recipe(), model=model)
    before, state = {name: v.clone() for name, v in task.module.state_dict().items()}, torch.get_rng_state()
    forward_flops(task)
    assert task.module.training
    assert not any(layer._forward_hooks for layer in task.module.modules())
    assert all(torch.equal(v, before[name]) for name, v in task.module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_one_thread_unless_a_pass_is_large(monkeypatch):
    # 94,720 operations a step, 360 test images.
    task = build_task(askew.Recipe(batch_size=10, population="iid(clients=10)"))
    sequential, vectorised, parallel = (make_engine(name, task) for name in ("sequential", "vectorised", "parallel"))
    assert {threads_for(task, engine) for engine in (sequential, vectorised, parallel)} == {Threads(1, 1)}
    monkeypatch.setattr(threads, "SHARED", 94_721)
    assert {threads_for(task, engine) for engine in (sequential, vectorised, parallel)} == {Threads(1, 3)}
    monkeypatch.setattr(threads, "SHARED", 94_720)
    assert threads_for(task, sequential) == Threads(3, 3)
    assert threads_for(task, sequential, allowed=8) == Threads(8, 8)
    # They have clients to keep cores busy.
    assert threads_for(task, parallel) == threads_for(task, vectorised) == Threads(1, 3)


def interrupted(recipe, **rest):
    def stop(record, recipe):
        raise KeyboardInterrupt

    return askew.run(recipe, on_round=stop, **rest)


WARMED = SMALL.replace(start="warm_up(epochs=1)", population=SMALL.population + "hold_out(0.1)")
WAYS = {
    "run": lambda engine, path: askew.run(SMALL, engine=engine),
    "server": lambda engine, path: askew.run(server_training(SMALL, hold_out=0.1), engine=engine),
    "warm-up": lambda engine, path: askew.run(WARMED, engine=engine),
    "probe": lambda engine, path: askew.run(SMALL.replace(probes=["weight_divergence()"]), engine=engine),
    "sweep": lambda engine, path: sweep([SMALL, SMALL.replace(seed=1)], engine=engine),
    "sweep, warm-up": lambda engine, path: sweep([WARMED], engine=engine),
    "compare": lambda engine, path: compare({"a": SMALL}, seeds=[0], engine=engine),
    "resume": lambda engine, path: (interrupted(SMALL, engine=engine, out=path), askew.resume(path)),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", WAYS)
def test_small_networks_keep_to_one_thread_and_the_users_number_comes_back(way, engine, monkeypatch, tmp_path):
    seen = set()

    def spy(*args, **rest):
        seen.add(torch.get_num_threads())
        return train_locally(*args, **rest)

    for module in ("sequential", "local"):
        monkeypatch.setattr(f"askew.engine.{module}.train_locally", spy)
    for kind, name in ((Vectorised, "train"), (Parallel, "train"), (evaluate, "outputs")):
        plain = getattr(kind, name)
        monkeypatch.setattr(kind, name,
                            lambda self, *args, plain=plain: (seen.add(torch.get_num_threads()), plain(self, *args))[1])
    WAYS[way](engine, tmp_path / "run")
    assert seen == {1}
    assert torch.get_num_threads() == 3


def test_a_run_that_diverges_gives_the_threads_back():
    with pytest.raises(askew.AskewError, match="finite"):
        askew.run(SMALL.replace(client=["sgd(lr=1e30)"]))
    assert torch.get_num_threads() == 3


def test_large_passes_get_all_threads(monkeypatch):
    monkeypatch.setattr(threads, "SHARED", 0)
    seen = set()
    monkeypatch.setattr("askew.engine.sequential.train_locally",
                        lambda *args, **rest: (seen.add(torch.get_num_threads()), train_locally(*args, **rest))[1])
    askew.run(SMALL, engine="sequential")
    assert seen == {3}


BITS = {"mlp": SMALL, "wide mlp": SMALL.replace(model="mlp(hidden=[1024])"), "cnn": SMALL.replace(model="small_cnn()"),
        "all at once": SMALL.replace(model="mlp(hidden=[256])", batch_size=0, population="iid(clients=10)"),
        "unequal": SMALL.replace(population="dirichlet(clients=8, alpha=0.3) + subset(0.3)"),
        "server": server_training(SMALL, hold_out=0.1)}


@pytest.mark.parametrize("engine", [*(pytest.param(engine, marks=pytest.mark.slow) for engine in ENGINES), "auto"])
@pytest.mark.parametrize("name", BITS)
def test_a_seed_gives_the_same_bits_with_any_number_of_threads(name, engine):
    results = []
    for number in (1, 2):  # two share a product otherwise than one does in all of these; three do in few of them
        torch.set_num_threads(number)
        results.append(askew.run(BITS[name], engine=engine))
    one, other = results
    assert other.records == one.records
    assert all(torch.equal(v, one.model[key]) for key, v in other.model.items())


@pytest.mark.parametrize("name", BITS)
def test_threads_side_by_side_give_the_bits_of_one_by_one(name):
    """So whether "auto" takes `parallel` (with several threads) or `sequential` (with one) does not show in weights."""
    one, many = (askew.run(BITS[name], engine=engine) for engine in ("sequential", "parallel"))
    assert all(torch.equal(v, one.model[key]) for key, v in many.model.items())


def test_a_run_folder_says_engine_and_threads(tmp_path):
    askew.run(SMALL, out=tmp_path / "run")
    sweep([SMALL], folders=[tmp_path / "sweep"])
    for folder in ("run", "sweep"):
        environment = json.loads((tmp_path / folder / "environment.json").read_text())
        assert (environment["engine"], environment["threads"], environment["training_threads"]) == ("vectorised", 3, 1)


def test_going_on_repeats_the_engine_and_says_in_one_line_if_threads_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "SHARED", 0)  # as if the network were large
    for engine, differs in (("sequential", True), ("parallel", False), ("vectorised", False)):
        for number in (3, 2):
            path = tmp_path / f"{engine}-{number}"
            torch.set_num_threads(3)
            interrupted(SMALL, engine=engine, out=path)
            torch.set_num_threads(number)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                resumed = askew.resume(path)
            assert resumed.simulation.engine.name == engine
            lines = [str(warning.message) for warning in caught]
            if number == 2 and differs:
                assert len(lines) == 1
                assert "\n" not in lines[0]
                assert "was begun on 3 threads and goes on with 2" in lines[0]
                assert "OMP_NUM_THREADS=3" in lines[0]
            else:
                assert lines == []


class Copied(nn.Linear):
    """A linear layer that notes which thread copies it, and with which weights in it."""

    copies: ClassVar[list[tuple[threading.Thread, bool]]] = []

    def __deepcopy__(self, memo):
        self.copies.append((threading.current_thread(), isinstance(self.weight, nn.Parameter)))
        twin = Copied(self.in_features, self.out_features)
        twin.load_state_dict(self.state_dict())
        return twin

    def forward(self, x):
        return super().forward(x.flatten(1))


def test_threads_copy_no_network_that_is_being_evaluated():
    """Between two chunks the caller may evaluate, for which torch puts other weights into the network for a moment.

    A thread that had not worked before once copied the network just then: weights without gradients, or another run's.
    """
    task = build_task(SMALL.replace(population="iid(clients=8)"), model=Copied(64, 10))
    Copied.copies.clear()
    rounds = Simulation(task, Parallel(task, threads=3))
    for _ in range(2):
        rounds.advance()
    assert Copied.copies == [(threading.current_thread(), True)] * 3
