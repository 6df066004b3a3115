"""Networks that strangers brought: trained as they are, or with a word about it, on every engine."""

import threading
import warnings
from functools import cache

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import askew
from askew.engine.batched import CannotBatch
from askew.engine.build import build_task
from askew.engine.functional import state_dict_of
from askew.engine.layers.dropout import dropouts, key_dropouts, set_keys
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation
from askew.runs.sweep import sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.rand(120, 1, 8, 8, generator=GENERATOR) - 0.3, torch.arange(120) % 4
WORDS = torch.randint(0, 9, (120, 6), generator=GENERATOR)
RECIPE = askew.Recipe(population="power_law(clients=4, exponent=0.7, min_examples=9)", batch_size=7, rounds=2,
                      client="sgd(lr=0.05)")


def data_of(x=X):
    return askew.Dataset.from_tensors((x[:100].clone(), Y[:100]), (x[100:].clone(), Y[100:]))


class LN(nn.LayerNorm):
    """A subclass that only renames."""


class GN(nn.GroupNorm):
    pass


class BN(nn.BatchNorm2d):
    pass


class LSTM(nn.LSTM):
    pass


class Attention(nn.MultiheadAttention):
    pass


class ScaledConv(nn.Conv2d):
    """A subclass that computes something else."""

    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, weight - weight.mean(dim=(1, 2, 3), keepdim=True), bias)


class Rows(nn.Module):
    """Rows of the image as a sequence."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.out = inner, nn.Linear(8, 4)

    def forward(self, x):
        rows = x[:, 0]
        result = (self.inner(rows, rows, rows)[0] if isinstance(self.inner, nn.MultiheadAttention)
                  else self.inner(rows)[0])
        return self.out(result[:, -1])


class ByHand(nn.Module):
    """Takes layers out of its `nn.Sequential`: what stands at a place matters."""

    def __init__(self):
        super().__init__()
        self.f, self.out = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2)), nn.Linear(3 * 9 + 3, 4)

    def forward(self, x):
        seen = self.f[:2](x)
        return self.out(torch.cat([self.f[2:](seen).flatten(1), seen.mean((2, 3))], dim=1))


class Parts(nn.Module):
    """Normalises parts of a batch: how it is cut matters."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, x):
        return self.out(torch.cat([(c - c.mean(0)) / (c.var(0, unbiased=False) + 1e-3).sqrt()
                                   for c in x.flatten(1).split(4)]))


class Signs(nn.Module):
    """Looks at the signs of the whole batch."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, x):
        x = x.flatten(1)
        return self.out(x * (1 + 0.5 * (x > 0).float().mean(0)))


class LongestOfBatch(nn.Module):
    """Divides by the longest sentence of the batch."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 5), nn.Linear(5, 4)

    def forward(self, x):
        return self.out(self.words(x).sum(1) / (x != 0).sum(1).max())


class Replaces(nn.Module):
    """Puts new buffers in the place of old ones."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 4)
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("centre", torch.zeros(64))

    def forward(self, x):
        x = x.flatten(1)
        if self.training:
            self.n = self.n + 1
            self.centre = 0.9 * self.centre + 0.1 * x.mean(0).detach()
        return self.out(x - self.centre)


class Experts(nn.Module):
    """Examples go to one of two layers; one of them may get none."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 4), nn.Linear(64, 4)

    def forward(self, x):
        x = x.flatten(1)
        high = x.mean(1) > 100
        out = x.new_zeros(len(x), 4)
        out[~high] = self.first(x[~high])
        out[high] = self.second(x[high])
        return out


class Packed(nn.Module):
    """Packed sequences, with dropout between levels."""

    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 6, 2, batch_first=True, dropout=1e-9), nn.Linear(6, 4)

    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x[:, 0], torch.full((len(x),), 8), batch_first=True)
        return self.out(self.lstm(packed)[1][0][-1])


class Keeps(nn.Module):
    """Keeps what it has computed."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 4)
        self.seen = None

    def forward(self, x):
        self.seen = self.out(x.flatten(1))
        return self.seen


class Empty(nn.Module):
    """Has a weight without values."""

    def __init__(self):
        super().__init__()
        self.out, self.none = nn.Linear(64, 4), nn.Parameter(torch.zeros(0))

    def forward(self, x):
        return self.out(x.flatten(1)) + self.none.sum()


def flat(*layers):
    return nn.Sequential(nn.Flatten(), *layers)


NETWORKS = {
    "renamed LayerNorm": lambda: flat(LN(64), nn.Linear(64, 4)),
    "renamed GroupNorm": lambda: nn.Sequential(nn.Conv2d(1, 4, 3), GN(2, 4), nn.Flatten(), nn.Linear(144, 4)),
    "renamed BatchNorm": lambda: nn.Sequential(nn.Conv2d(1, 4, 3), BN(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)),
    "renamed LSTM": lambda: Rows(LSTM(8, 8, batch_first=True)),
    "renamed attention": lambda: Rows(Attention(8, 2, batch_first=True)),
    "convolution of another kind": lambda: nn.Sequential(ScaledConv(1, 4, 3), nn.ReLU(), nn.Flatten(),
                                                         nn.Linear(144, 4)),
    "layers taken out of a Sequential": ByHand,
    "parts of a batch": Parts,
    "signs of a batch": Signs,
    "longest of a batch": LongestOfBatch,
    "buffers that are replaced": Replaces,
    "experts": Experts,
    "changes its input": lambda: flat(nn.ReLU(inplace=True), nn.Linear(64, 4)),
    "attention with learnt keys": lambda: Rows(nn.MultiheadAttention(8, 2, dropout=1e-9, batch_first=True,
                                                                     add_bias_kv=True)),
    "packed sequences": Packed,
    "keeps its scores": Keeps,
    "an empty weight": Empty,
    "projected LSTM with dropout": lambda: Rows(nn.LSTM(8, 12, 2, batch_first=True, dropout=0.2, proj_size=8)),
}


def model_of(name):
    torch.manual_seed(3)
    return NETWORKS[name]()


def inputs_of(name):
    return data_of(WORDS if name == "longest of a batch" else X)


@cache
def one_by_one(name):
    return askew.run(RECIPE, data=inputs_of(name), model=model_of(name), engine="sequential").model


@pytest.mark.parametrize("engine", [pytest.param("parallel", marks=pytest.mark.slow), "vectorised",
                                    pytest.param("auto", marks=pytest.mark.slow), "graphed"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_engine_trains_it_as_one_by_one(name, engine):
    data = inputs_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of engines that cannot take it
        reference = one_by_one(name)
        if engine == "graphed":
            task = build_task(RECIPE, data=data, model=model_of(name))
            try:
                simulation = Simulation(task, Vectorised(task, graphed=True, compiled=False))
            except CannotBatch:
                return
            while not simulation.finished:
                simulation.advance()
            other = state_dict_of(task.module, simulation.view())
        else:
            other = askew.run(RECIPE, data=data, model=model_of(name), engine=engine).model
    start = model_of(name).state_dict()
    for key, v in reference.items():
        moved = (v - start[key]).float().norm()
        assert (other[key] - v).float().norm() <= 1e-3 * moved + 1e-6, key


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_the_one_that_was_given(name):
    """Scores of the network inside a task are those of the user's, whatever was exchanged in it."""
    data, model = inputs_of(name), model_of(name).eval()
    task = build_task(RECIPE, data=data, model=model)
    inputs = data.test.x[:5]
    assert torch.equal(task.module.eval()(task.prepare.apply(inputs, None)), model(inputs.clone()))


def test_data_are_not_changed_by_a_network_that_changes_its_input():
    data = data_of()
    before = data.train.x.clone(), data.test.x.clone()
    first, second = (askew.run(RECIPE, data=data, model=model_of("changes its input")) for _ in range(2))
    assert torch.equal(data.train.x, before[0])
    assert torch.equal(data.test.x, before[1])
    assert first.records == second.records


def test_replaced_buffers_are_kept():
    result = askew.run(RECIPE.replace(population="iid(clients=2)", rounds=1), data=data_of(), model=Replaces(),
                       engine="sequential")
    assert float(result.model["n"]) == 8  # steps of each of the two clients: 50 examples, B 7
    assert float(result.model["centre"].norm()) > 0


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(64, 16).requires_grad_(False), nn.Linear(16, 4)
        self.register_buffer("p", torch.randn(16, 16))

    def forward(self, x):
        return self.out(torch.relu(self.a(x.flatten(1)) @ self.p))


def test_a_pretrained_start_brings_frozen_weights_and_buffers(tmp_path):
    """Also where two recipes with other files are trained together."""
    runs = []
    for number in (0, 1):
        torch.manual_seed(10 + number)
        donor = Frozen()
        save_file({name: v.contiguous() for name, v in donor.state_dict().items()}, tmp_path / f"{number}.safetensors")
        runs.append((RECIPE.replace(start=f"pretrained({str(tmp_path / f'{number}.safetensors')!r})"), donor))
    torch.manual_seed(0)
    model = Frozen()
    together = sweep([recipe for recipe, _ in runs], data=data_of(), model=model, engine="vectorised")
    for (recipe, donor), outcome in zip(runs, together, strict=True):
        for result in (outcome, askew.run(recipe, data=data_of(), model=model, engine="sequential")):
            assert torch.equal(result.model["a.weight"], donor.a.weight)
            assert torch.equal(result.model["p"], donor.p)
        alone = askew.run(recipe, data=data_of(), model=model, engine="sequential")
        torch.testing.assert_close(outcome.model["out.weight"], alone.model["out.weight"], atol=1e-5, rtol=1e-4)


def test_a_checkpoint_brings_frozen_weights_and_refuses_another_network():
    torch.manual_seed(0)
    task = build_task(RECIPE, data=data_of(), model=Frozen())
    simulation = Simulation(task, Sequential(task))
    simulation.advance()
    torch.manual_seed(1)
    other = build_task(RECIPE, data=data_of(), model=Frozen())
    resumed = Simulation(other, Sequential(other))
    resumed.state = simulation.state
    assert simulation.advance() == resumed.advance()
    assert torch.equal(other.module.a.weight, task.module.a.weight)
    wrong = build_task(RECIPE, data=data_of(), model=flat(nn.Linear(64, 4)))
    with pytest.raises(askew.AskewError,
                       match=r"checkpoint is of another network: .* continue with the network that the run began with"):
        Simulation(wrong, Sequential(wrong)).state = simulation.state


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(64, 4, dtype=torch.complex64))

    def forward(self, x):
        return (x.flatten(1).to(self.w.dtype) @ self.w).abs()


class Locked(nn.Linear):
    def __init__(self):
        super().__init__(64, 4)
        self.lock = threading.Lock()


@pytest.mark.parametrize(("model", "message"), [
    (Complex(), "complex weights"), (torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(64, 4))), "scripted"),
    (nn.Sequential(nn.Flatten(), nn.LazyLinear(4)), "lazy layers that have seen no input"),
    (Locked(), "cannot be copied"),
    (nn.Sequential(nn.Flatten(), nn.Linear(64, 4).requires_grad_(False)),
     "no weight of the network requires a gradient")])
def test_networks_that_cannot_be_trained_are_refused_in_one_line(model, message):
    with pytest.raises(askew.AskewError, match=message) as error:
        askew.run(RECIPE, data=data_of(), model=model)
    assert "\n" not in str(error.value)


def test_attention_with_learnt_keys_trains_them():
    model = model_of("attention with learnt keys")
    result = askew.run(RECIPE, data=data_of(), model=model, engine="sequential")
    assert not torch.equal(result.model["inner.bias_k"], model.inner.bias_k)


@pytest.mark.parametrize(("layer", "shape"),
                         [(nn.Dropout1d, (6, 5)), (nn.Dropout1d, (6, 5, 4)), (nn.Dropout2d, (6, 5, 4)),
                          (nn.Dropout2d, (6, 5, 4, 3)), (nn.Dropout3d, (6, 5, 4, 3)),
                          (nn.Dropout3d, (6, 5, 2, 2, 2))])
def test_whole_channels_are_dropped_as_torch_drops_them(layer, shape):
    """Which values fall together, of torch's layer and of ours."""

    def together(network):
        patterns = torch.stack([network(torch.ones(shape)).flatten() == 0 for _ in range(60)]).float()
        return (patterns.T @ patterns == patterns.sum(0)[:, None]) & (patterns.sum(0)[:, None] > 0)

    ours = nn.Sequential(layer(0.5)).train()
    key_dropouts(ours)
    numbers = iter(range(1000))

    def keyed(x):
        set_keys(dropouts(ours), torch.tensor(next(numbers)))
        return ours(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        assert torch.equal(together(keyed), together(layer(0.5).train()))


def test_recipes_are_there_without_an_import():
    assert askew.pieces.methods.fedavg().name == "fedavg"
