"""Which engine "auto" takes: a rule that neither the clock, nor a cache, nor the number of rounds plays a part in."""

import itertools

import pytest
import torch

import askew
from askew.core.dataset import Dataset
from askew.core.population import Ownership, Population
from askew.engine import choice as engines
from askew.engine.build import build_task
from askew.engine.choice import ENGINES, calibrate, choose, make_engine
from askew.engine.sequential import Sequential
from askew.engine.threads import examples_per_step
from askew.rounds.simulation import Simulation
from askew.runs.sweep import sweep

LONG = askew.Recipe(rounds=10_000)
TEN = "iid(clients=10)"


def random_data(*shape, examples=200):
    x, y = torch.rand(examples, *shape, generator=torch.Generator().manual_seed(0)), torch.arange(examples) % 10
    return Dataset.from_tensors((x, y), (x[:20], y[:20]), name="random")


# name -> (recipe, data, engine with one thread, engine with two)
CASES = {
    "the default job": (askew.Recipe(), None, "vectorised", "vectorised"),
    "a small CNN": (askew.Recipe(model="small_cnn()"), None, "vectorised", "vectorised"),
    "one client": (askew.Recipe(population="pooled()"), None, "sequential", "sequential"),
    "two clients": (askew.Recipe(population="iid(clients=2)"), None, "sequential", "parallel"),
    "one client per round": (askew.Recipe(population=TEN, fraction=0.1), None, "sequential", "sequential"),
    "batches of everything": (askew.Recipe(batch_size=0), None, "vectorised", "vectorised"),
    "a wide MLP": (askew.Recipe(population=TEN, model="mlp(hidden=[4096])"), None, "sequential", "parallel"),
    "a CNN": (askew.Recipe(population=TEN, model="mcmahan_mnist_cnn()"), (1, 28, 28), "sequential", "parallel"),
    "a CNN, one client": (askew.Recipe(population="pooled()", model="mcmahan_mnist_cnn()"), (1, 28, 28), "sequential",
                          "sequential"),
    "a ResNet": (askew.Recipe(population=TEN, model="resnet20_fixup()"), (3, 32, 32), "sequential", "parallel"),
}


@pytest.fixture
def threads():
    """Sets torch's number of threads; puts back what it was."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def task_of(name, **changes):
    recipe, shape, *_ = CASES[name]
    return build_task(recipe.replace(**changes), data=random_data(*shape) if shape else None)


@pytest.mark.parametrize("name", CASES)
def test_the_rule(name, threads):
    task = task_of(name)
    for number, expected in zip((1, 2), CASES[name][2:], strict=True):
        threads(number)
        assert choose(task) == expected, f"{number} threads"


@pytest.mark.parametrize("name", CASES)
def test_the_choice_is_a_function_of_recipe_data_and_network_alone(name, monkeypatch, tmp_path):
    def two_threads_and_no_stopwatch():  # two in name: real ones wait for each other on a busy machine
        monkeypatch.setattr(engines, "allowed_threads", lambda: 2)
        monkeypatch.setattr(engines, "calibrate", lambda *args, **rest: pytest.fail("timed"))

    two_threads_and_no_stopwatch()
    expected = CASES[name][3]
    for number, rounds in enumerate((1, 40, 10**9)):
        clock = itertools.count(step=10.0 ** number)  # every look at it, another time
        for watch in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
            monkeypatch.setattr(f"time.{watch}", lambda clock=clock: float(next(clock)))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
        torch.manual_seed(number)
        assert choose(task_of(name, rounds=rounds, seed=number, evaluate_every=number + 1)) == expected
        monkeypatch.undo()
        two_threads_and_no_stopwatch()
    assert not list(tmp_path.rglob("*.json"))  # and leaves nothing behind


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{}, {"model": "small_cnn()"}, {"population": "pooled()"}],
                         ids=["mlp", "cnn", "one client"])
def test_fewer_rounds_are_the_first_of_more(kind):
    # Once, those of more local steps were timed to choose an engine. That no number of rounds decides is shown above.
    recipe = askew.Recipe(batch_size=8, evaluate_every=1, **kind)
    few, more = askew.run(recipe.replace(rounds=2)), askew.run(recipe.replace(rounds=4))
    assert few.simulation.engine.name == more.simulation.engine.name
    assert few.records == more.records[:2]


def test_many_configurations_of_one_client_go_together():
    task = task_of("one client")
    assert choose(task) == "sequential"
    assert choose(task, lanes=24) == "vectorised"
    outcomes = sweep([CASES["one client"][0].replace(rounds=1, seed=seed) for seed in range(3)])
    assert [outcome.together for outcome in outcomes] == [3, 3, 3]


def test_a_sweep_does_not_batch_what_is_slower_so(threads):
    threads(2)
    assert choose(task_of("a CNN"), lanes=24) == "parallel"


def test_clients_of_very_unequal_sizes_count_by_their_mean():
    """Batches of everything: 2 clients with 8 examples and one with 184 have 66.7 each."""
    owned = Ownership.of([range(8), range(8, 16), range(16, 200)])
    data = random_data(64)
    population = Population.of(owned, data.train.y.numpy(), data.num_classes)
    assert examples_per_step(build_task(askew.Recipe(batch_size=0), data=data, population=population)) == 67
    assert examples_per_step(build_task(askew.Recipe(batch_size=7), data=data, population=population)) == 7


def test_a_calibration_times_every_engine_and_leaves_all_as_it_was():
    """The first weights and buffers stay, and a round afterwards is what it is without one, bit for bit."""
    recipe = LONG.replace(model="hello_edge_cnn(dropout=0.2)", batch_size=20)
    task, untouched = (build_task(recipe, data=random_data(1, 50, 10)) for _ in range(2))
    torch.manual_seed(5)
    state, number = torch.get_rng_state(), torch.get_num_threads()
    timings = calibrate(task, repeats=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == number
    assert [t.engine for t in timings] == list(ENGINES)
    assert all(t.seconds is not None and t.seconds > 0 for t in timings)
    assert task.fresh.buffers
    for before, after in ((untouched.fresh.params, task.fresh.params), (untouched.fresh.buffers, task.fresh.buffers)):
        assert before.keys() == after.keys()
        assert all(torch.equal(v, after[name]) for name, v in before.items())
    assert Simulation(task, Sequential(task)).advance() == Simulation(untouched, Sequential(untouched)).advance()


def test_unknown_names_are_refused():
    task = build_task(LONG)
    with pytest.raises(askew.AskewError, match="unknown engine 'vectorized'; did you mean 'vectorised'"):
        make_engine("vectorized", task)
    with pytest.raises(askew.AskewError, match="unknown precision 'bf61'"):
        make_engine("vectorised", task, precision="bf61")
