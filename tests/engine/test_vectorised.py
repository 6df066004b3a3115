"""The batched engine: a client's result is its own, whoever it shares a computation with."""

from functools import lru_cache

import pytest
import torch
from conform.forms import LONG
from torch import nn

import askew
from askew.core import registry
from askew.core.population import Ownership, Population
from askew.engine import batched
from askew.engine.batched import CannotBatch, batched_network
from askew.engine.build import build_task
from askew.engine.choice import ENGINES, make_engine
from askew.engine.kernels.conv import client_conv2d, taps_as_channels
from askew.engine.layers.dropout import dropouts, key_dropouts, set_keys
from askew.engine.parallel import Parallel
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import Sequential
from askew.engine.start import initial_model
from askew.engine.step_plan import bucket, graph_sizes
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation

RECIPE = askew.Recipe(batch_size=16, epochs=2, model="mlp(hidden=[16])")


def data_of(shape, count=64, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(count, *shape, generator=generator), torch.arange(count) % classes
    return askew.Dataset.from_tensors((x, y), (x[:20], y[:20]))


def updates(engine, task, clients):
    """Each client's own update."""
    found = {}
    for _, chunk in engine.train([Lane(task, {0: initial_model(task)}, [Job(0, c) for c in clients], 3)]):
        for i, job in enumerate(chunk.jobs):
            found[job.client] = {name: v[i].clone() for name, v in chunk.updates.items()}
    return found


def assert_close(a, b, tolerance=1e-4):
    for name, v in a.items():
        assert (v - b[name]).norm() <= tolerance * v.norm() + 1e-7, name


@pytest.fixture(scope="module")
def unequal_task():
    """Clients with 1 to 1,000 examples."""
    sizes = [1, 1000, 2, 16, 17, 333, 31, 32]
    data = data_of((8,), sum(sizes))
    owners = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).numpy()
    population = Population.of(Ownership.by_owner(owners, len(sizes)), data.train.y.numpy(), 10)
    return build_task(RECIPE, data=data, population=population)


@pytest.fixture(scope="module")
def unequal_alone(unequal_task):
    return updates(Sequential(unequal_task), unequal_task, range(unequal_task.num_clients))


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("chunk", [None, 3, 1])
def test_unequal_clients_in_one_cohort(unequal_task, unequal_alone, chunk, graphed):
    engine = Vectorised(unequal_task, chunk_jobs=chunk, graphed=graphed, compiled=False)
    ours = updates(engine, unequal_task, list(unequal_alone))
    for client, alone in unequal_alone.items():
        assert_close(alone, ours[client])


def test_threads_side_by_side_give_the_reference_in_the_order_of_the_jobs(unequal_task, unequal_alone):
    clients = [5, 0, 1, 7, 3]
    engine = Parallel(unequal_task, threads=2)
    lane = Lane(unequal_task, {0: initial_model(unequal_task)}, [Job(0, c) for c in clients], 3)
    chunks = [chunk for _, chunk in engine.train([lane])]
    assert [chunk.jobs[0].client for chunk in chunks] == clients
    for chunk in chunks:
        ours = {name: v[0] for name, v in chunk.updates.items()}
        assert_close(unequal_alone[chunk.jobs[0].client], ours, tolerance=1e-6)


def test_a_client_added_to_the_cohort_does_not_change_the_others(unequal_task):
    engine = Vectorised(unequal_task)
    few, many = updates(engine, unequal_task, [2, 4, 6]), updates(engine, unequal_task, [1, 2, 3, 4, 6])
    for client in few:
        assert_close(few[client], many[client], tolerance=1e-6)


# Nets and inputs, smaller than those of the papers where a network takes any size: an engine sees the same layers.
# BatchNorm over a handful of examples magnifies rounding, so that its clients get whole batches.
NETS = {
    "mlp(hidden=[16])": (1, 8, 8), "small_cnn()": (1, 8, 8), "mcmahan_mnist_cnn()": (1, 28, 28),
    "mcmahan_cifar_cnn()": (3, 12, 12), "fednnnn_mnist_cnn()": (1, 28, 28), "fednnnn_cifar_cnn()": (3, 16, 16),
    "fedcd_cnn()": (3, 16, 16), "resnet20_fixup()": (3, 8, 8), "resnet20_fixup(slow_bias=True)": (3, 8, 8),
    "resnet20()": (3, 16, 16), "hello_edge_cnn()": (1, 50, 10), "hello_edge_cnn(batch_norm=True)": (1, 50, 10),
    "hello_edge_cnn(dropout=0.3)": (1, 50, 10),
}
LARGE = ("mcmahan", "fednnnn_cifar", "fedcd", "resnet20")  # begin the names of those that train for a second
# One of them with normalisation over channels, one with Fixup's zeros; the others, which `test_kinds.py` trains in
# every form for a step, are left to the long run.
TRAINED = [net for net in NETS
           if LONG or not net.startswith(LARGE) or net in ("mcmahan_cifar_cnn()", "resnet20_fixup()")]


def relative(a, b):
    return float((sum(((a[k].double() - b[k].double()) ** 2).sum() for k in a)
                  / sum((a[k].double() ** 2).sum() for k in a)).sqrt())


def away_from_zeros(net):
    """The network with every weight off its start: with Fixup's zeros only the last layer would move."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = registry.build("model", net, input_shape=NETS[net], num_classes=10)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += 0.02 * torch.randn_like(parameter)
    return module


# Both clients in one computation: by default a large network's are trained one after the other on a CPU.
TOGETHER = {"parallel": lambda task: Parallel(task, threads=2),
            "vectorised": lambda task: Vectorised(task, chunk_jobs=2)}


@lru_cache(maxsize=1)  # its tests follow each other
def alone(net):
    """A large step's task and its updates; two rounds' task, the weights before them and what they come to."""
    recipe = RECIPE.replace(model=net, population="iid(clients=2)", epochs=1, client="sgd(lr=0.001)", rounds=2)
    data, module = data_of(NETS[net], 32), away_from_zeros(net)
    whole = build_task(recipe.replace(batch_size=0, client="sgd(lr=0.1)"), data=data)  # a movement well above rounding
    task = build_task(recipe, data=data, model=module)
    return whole, updates(Sequential(whole), whole, [0, 1]), task, *two_rounds(task, Sequential)


def two_rounds(task, engine):
    """Weights before them, and the model after."""
    simulation = Simulation(task, engine(task))
    start = simulation.view().params
    for _ in range(2):
        simulation.advance()
    return start, simulation.view()


@pytest.mark.parametrize("engine", TOGETHER)
@pytest.mark.parametrize("net", [pytest.param(net, marks=[pytest.mark.slow] * net.startswith(LARGE))
                                 for net in TRAINED])
def test_every_network_trains_as_it_does_alone(net, engine):
    """One large step, then two rounds: all layers move as they do alone. An engine that does nothing is off by 1.

    On noise, ReLU and max pooling turn rounding into flips, which BatchNorm over convolutions passes on to all: hence
    0.5% for a large step (last layers agree to 1e-5), and 3% over two rounds where there is such BatchNorm (measured
    1.9e-2; others 6e-5).
    """
    whole, steps, task, start, a = alone(net)
    together = updates(TOGETHER[engine](whole), whole, [0, 1])
    for client, step in steps.items():
        assert relative(step, together[client]) < 5e-3
        last = list(step)[-1]
        assert relative({last: step[last]}, {last: together[client][last]}) < 1e-5
    again, b = two_rounds(task, TOGETHER[engine])
    assert all(torch.equal(v, again[name]) for name, v in start.items())
    moved, ours = ({name: v - start[name] for name, v in model.params.items()} for model in (a, b))
    assert all(v.norm() > 0 for v in moved.values() if v.ndim > 1)  # a bias before BatchNorm stays where it is
    normalises = any(isinstance(layer, nn.BatchNorm2d) for layer in task.module.modules())
    assert relative(moved, ours) < (3e-2 if normalises else 5e-4)
    if a.buffers:
        assert relative(a.buffers, b.buffers) < 1e-4


class Skips(nn.Module):
    """A user's module with a residual connection, dropout and its own forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.last(h + self.drop(torch.tanh(self.second(h))))


class OwnWeight(nn.Module):
    """A bare parameter: no stacked form, so that vmap serves."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 10))

    def forward(self, x):
        return x @ self.weight


class Mixes(nn.Module):
    """Looks across its batch: stacked layers alone would mix clients."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        return self.last(x - x.mean(dim=0))


class Draws(nn.Module):
    """Draws from torch's generator by itself: its numbers cannot be a client's own in a batch."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        return self.last(nn.functional.dropout(x, 0.5, self.training))


@pytest.mark.parametrize(("module", "kind"), [(Skips(), "stacked layers"), (OwnWeight(), "vmap"), (Mixes(), "vmap")],
                         ids=["skips", "own weight", "mixes"])
def test_modules_of_ones_own(module, kind):
    # Equal sizes: a padded batch would show in a network that looks across it.
    task = build_task(RECIPE.replace(population="iid(clients=4)"), data=data_of((8,)), model=module)
    engine = Vectorised(task)
    assert engine.kind == kind
    reference, ours = updates(Sequential(task), task, range(4)), updates(engine, task, range(4))
    for client in range(4):
        assert_close(reference[client], ours[client])


def test_a_module_that_draws_by_itself_is_refused_and_auto_goes_one_by_one():
    task = build_task(RECIPE.replace(population="iid(clients=4)"), data=data_of((8,)), model=Draws())
    with pytest.raises(CannotBatch, match="random"):
        Vectorised(task)
    with pytest.warns(UserWarning, match=r"engine vectorised: .*random.*; sequential is taken instead"):
        assert make_engine("vectorised", task).name == "sequential"
    with pytest.raises(CannotBatch, match="draws random numbers"):
        ENGINES["parallel"](task)
    assert make_engine("auto", task).name == "sequential"


class Flat(nn.Module):
    """A linear layer, behind which the examples of a batch are mixed or not."""

    def __init__(self, inputs, mixed=False):
        super().__init__()
        self.out, self.mixed = nn.Linear(inputs, 10), mixed

    def forward(self, x):
        y = self.out(x.flatten(1))
        return y - y.mean(dim=0) if self.mixed else y


def test_a_network_that_recipes_name_is_tried_once(monkeypatch):
    """One that is given as an object, or filed anew under the same name as one does in a notebook, is tried again."""
    tried, problem = [], batched._problem
    monkeypatch.setattr(batched, "_problem", lambda *args: tried.append(1) or problem(*args))
    monkeypatch.setattr(batched, "_TRIED", {})
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(pieces) for kind, pieces in registry._PIECES.items()})

    def file(always):
        @askew.piece("model")
        def of_a_notebook(input_shape: tuple[int, ...], num_classes: int, mixed: bool = False) -> nn.Module:
            return Flat(64, mixed or always)

    file(always=False)
    recipe = RECIPE.replace(model="of_a_notebook()", population="iid(clients=3)")
    mixing = recipe.replace(model="of_a_notebook(mixed=True)")

    def trials(recipe, model=None):
        tried.clear()
        kind = build_task(recipe, model=model).batched[1]
        return len(tried), kind

    assert [trials(r) for r in (recipe, recipe, recipe.replace(seed=1))] == [
        (1, "stacked layers"), (0, "stacked layers"), (0, "stacked layers")]
    assert [trials(mixing), trials(mixing)] == [(3, "vmap"), (0, "vmap")]
    assert [trials(recipe, Flat(64)), trials(recipe, Flat(64)), trials(recipe, Flat(64, mixed=True))] == [
        (1, "stacked layers"), (1, "stacked layers"), (3, "vmap")]
    file(always=True)
    assert trials(recipe) == (3, "vmap")


def test_dropout_masks_belong_to_the_client():
    module = nn.Sequential(nn.Linear(8, 200), nn.Dropout(0.5), nn.Linear(200, 10))
    key_dropouts(module)
    layers = dropouts(module)
    x = torch.ones(5, 200)

    def masked(x, key=7):
        set_keys(layers, torch.tensor(key))
        return layers[0](x)

    whole = masked(x)
    assert 0.4 < float((whole == 0).float().mean()) < 0.6
    assert torch.equal(masked(x[:3]), whole[:3]), "a shorter batch has the same masks in front"
    assert not torch.equal(layers[0](x[:3]), whole[:3]), "used twice in a step, a layer draws twice"
    network, kind = batched_network(module.train(), torch.randn(4, 8))
    assert kind == "stacked layers"
    # Two clients side by side, each with its key and its weights, against each by itself.
    inputs, keys = torch.randn(2, 5, 8), torch.tensor([7, 8])
    params = {name: torch.stack([v, 2 * v]).detach() for name, v in module.named_parameters()}
    together = network(inputs, params, {}, 2, keys, None)
    for client in (0, 1):
        set_keys(layers, keys[client])
        alone = torch.func.functional_call(module, {name: v[client] for name, v in params.items()}, (inputs[client],))
        torch.testing.assert_close(together[client], alone)
    set_keys(layers, keys[0])  # with the other client's key the second one would give something else
    other = torch.func.functional_call(module, {name: v[1] for name, v in params.items()}, (inputs[1],))
    assert not torch.allclose(together[1], other, atol=1e-3)


def test_padding_in_a_network_that_looks_across_its_batch_is_avoided():
    """Mixes on unequal sizes: batches of one size go together, as for BatchNorm."""
    data = data_of((8,), 40)
    owners = torch.repeat_interleave(torch.arange(3), torch.tensor([5, 16, 19])).numpy()
    population = Population.of(Ownership.by_owner(owners, 3), data.train.y.numpy(), 10)
    task = build_task(RECIPE.replace(batch_size=8), data=data, population=population, model=Mixes())
    reference, ours = updates(Sequential(task), task, range(3)), updates(Vectorised(task), task, range(3))
    for client in range(3):
        assert_close(reference[client], ours[client])


def test_padding_counts_for_nothing_in_batch_norm():
    """Unequal clients in fixed shapes, where batches are padded, against the same step by step, where they are not."""
    recipe = askew.Recipe(population="power_law(clients=6) + hold_out(0.9)", model="fednnnn_cifar_cnn()", batch_size=7,
                          client="sgd(lr=0.02)")
    task = build_task(recipe)
    assert len(set((task.population.sizes % 7).tolist())) > 1  # last batches differ
    engines = [Vectorised(task, graphed=graphed, compiled=False) for graphed in (False, True)]
    lane = Lane(task, {0: initial_model(task)}, [Job(0, c) for c in range(6)], 0)
    chunks = [next(iter(engine.train([lane])))[1] for engine in engines]
    assert chunks[0].jobs == chunks[1].jobs
    assert_close(chunks[0].updates, chunks[1].updates)
    assert_close({n: v.float() for n, v in chunks[0].buffers.items()},
                 {n: v.float() for n, v in chunks[1].buffers.items()})


class Shift(nn.Module):
    """A layer of one's own that says that it takes weights with a client axis."""

    client_axis = True

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x + (self.by if self.by.ndim == 1 else self.by.expand(-1, len(x) // len(self.by)).reshape(-1, 1))


def test_a_layer_may_bring_its_own_client_axis():
    network, kind = batched_network(nn.Sequential(nn.Linear(3, 4), Shift(), nn.Linear(4, 2)), torch.randn(6, 3))
    assert kind == "stacked layers"
    params = {"0.weight": torch.zeros(2, 4, 3), "0.bias": torch.zeros(2, 4), "1.by": torch.tensor([[1.0], [5.0]]),
              "2.weight": torch.ones(2, 2, 4), "2.bias": torch.zeros(2, 2)}
    scores = network(torch.randn(2, 3, 3), params, {}, 2, None, None)
    assert scores[0].unique().tolist() == [4.0]  # 4 x 1
    assert scores[1].unique().tolist() == [20.0]  # 4 x 5


@pytest.mark.parametrize(("active", "size"),
                         [(100, 100), (51, 100), (50, 50), (26, 50), (25, 25), (14, 25), (13, 13), (5, 7), (1, 4)])
def test_few_sizes_of_graphs(active, size):
    assert bucket(active, 100) == size


@pytest.mark.parametrize(("channels", "taps", "stride", "padding"), [
    (1, (5, 5), (1, 1), (2, 2)), (3, (5, 5), (1, 1), (2, 2)), (3, (3, 3), (2, 2), (1, 1)), (1, (10, 4), (1, 1), (0, 0)),
    (2, (3, 4), (2, 3), (0, 2))])
def test_taps_of_a_row_as_channels_are_the_same_convolution(channels, taps, stride, padding):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, channels, 12, 11, generator=generator)
    weight = torch.randn(2, 7, channels, *taps, generator=generator).requires_grad_()
    bias = torch.randn(2, 7, generator=generator)
    expected = client_conv2d(x, weight, bias, stride, padding, (1, 1))
    wide, narrow, *rest = taps_as_channels(x, weight, stride, padding)
    assert narrow.shape[4] == 1
    assert narrow.shape[2] == wide.shape[1] == {4: 4, 5: 8, 8: 8, 9: 16, 15: 16}[channels * taps[1]]
    got = client_conv2d(wide, narrow, bias, *rest, (1, 1))
    torch.testing.assert_close(got, expected)
    dy = torch.randn(expected.shape, generator=generator)
    torch.testing.assert_close(torch.autograd.grad(got, weight, dy)[0], torch.autograd.grad(expected, weight, dy)[0])


@pytest.mark.parametrize(("jobs", "at_most", "sizes"),
                         [(12, 5, [4, 4, 4]), (12, 12, [12]), (7, 5, [4, 3]), (1, 5, [1])])
def test_chunks_are_about_equally_large(jobs, at_most, sizes):
    task = build_task(askew.Recipe(population=f"iid(clients={jobs})", batch_size=16))
    engine = Vectorised(task, chunk_jobs=at_most)
    start = initial_model(task)
    lane = Lane(engine.task, {0: start}, [Job(0, k) for k in range(jobs)], 0)
    assert [len(chunk.jobs) for _, chunk in engine.train([lane])] == sizes


@pytest.mark.parametrize(("steps", "uneven", "parts"),
                         [(10, False, [10]), (16, False, [16]), (50, False, [16, 16, 16, 2]),
                          (10, True, [8, 2]), (1, True, [1]), (31, True, [16, 8, 4, 2, 1])])
def test_few_lengths_of_graphs(steps, uneven, parts):
    assert graph_sizes(steps, uneven) == parts
    assert sum(parts) == steps


def test_a_deep_network_with_batch_norm_is_not_taken_for_one_that_mixes_clients():
    """Rounding alone drives two right ways through it apart, in single precision by more than the trial allows."""
    torch.manual_seed(0)
    blocks = [layer for _ in range(40)
              for layer in (nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU())]
    module = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(48, 4))
    assert batched_network(module.train(), torch.randn(10, 3, 4, 4))[1] == "stacked layers"
