"""Random rounding: values by hand, right on average, which tensors, bytes, and the same in every engine."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import askew
from askew.core import registry, rng
from askew.core.client_piece import ClientChain, ClientContext, ClientPiece, Plan
from askew.core.tensors import add
from askew.engine.build import build_task
from askew.engine.choice import make_engine
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import Sequential
from askew.engine.start import initial_model
from askew.engine.traits import traits_of
from askew.engine.vectorised import Vectorised
from askew.pieces.client import quantize, quantize_at_random, sgd

ROUNDINGS = 20_000
NETWORKS = {"dense": {}, "convolutions and batch norm": {
    "model": "fednnnn_cifar_cnn()", "population": "shards(clients=10, shards_per_client=2) + hold_out(0.9)",
    "client": "sgd(lr=0.001)"}}


def sent(piece, params, u, key=None):
    """The update that a client sends which began with `params` and has moved by u."""
    key = rng.key(0, "c") if key is None else key
    return piece.end({"update": u}, (), (), ClientContext(add(params, u), params, 0, make_key=lambda: key))[0]["update"]


def drawn(bits, params, u, number=ROUNDINGS):
    """The models that a server sees of `number` clients with the same model and update, [number, ...]."""
    piece = quantize_at_random(bits)
    keys = rng.fold(rng.key(0, "client"), torch.arange(number))
    one = torch.func.vmap(lambda key: sent(piece, params, u, key))
    return {name: params[name] + v for name, v in one(keys).items()}


def test_values_and_their_frequencies_by_hand():
    """2 bits, four values -0.9, -0.3, 0.3, 0.9. The model is [[-0.9, 0.2, 0.9]]: 0.2 is 5/6 of the way to 0.3."""
    params, u = {"fc.weight": torch.tensor([[-0.5, 0.1, 0.5]])}, {"fc.weight": torch.tensor([[-0.4, 0.1, 0.4]])}
    got = drawn(2, params, u)["fc.weight"][:, 0]
    assert got[:, 0].tolist() == pytest.approx([-0.9] * ROUNDINGS)
    assert got[:, 2].tolist() == pytest.approx([0.9] * ROUNDINGS)
    middle = got[:, 1]
    above = middle > 0
    assert middle[above].tolist() == pytest.approx([0.3] * int(above.sum()))
    assert middle[~above].tolist() == pytest.approx([-0.3] * int((~above).sum()))
    # 4 standard errors.
    assert float(above.double().mean()) == pytest.approx(5 / 6, abs=4 * (5 / 36 / ROUNDINGS) ** 0.5)


def test_the_grid_is_that_of_the_authors_notebook():
    """w = 0, 1/11, ..., 10/11 in 4 bits: s = 10/11, so that values are odd multiples of s / 15 = 0.0606, as in the
    notebook's own example (-0.0606, 0.0606, 0.1818, 0.3030, 0.3030, 0.4242, 0.5455, 0.5455, 0.7879, 0.7879, 0.9091)."""
    w = torch.tensor([[i / 11 for i in range(11)]])
    got = drawn(4, {"fc.weight": w}, {"fc.weight": torch.zeros_like(w)}, 500)["fc.weight"]
    values = [sorted({round(v, 4) for v in got[:, 0, i].tolist()}) for i in range(11)]
    assert values == [[-0.0606, 0.0606], [0.0606, 0.1818], [0.1818], [0.1818, 0.303], [0.303, 0.4242], [0.4242, 0.5455],
                      [0.5455], [0.5455, 0.6667], [0.6667, 0.7879], [0.7879, 0.9091], [0.9091]]


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_on_average_every_weight_keeps_its_value(bits):
    """E[q(w)] = w: within 5 standard errors of the mean, for weights and a bias that lies beyond them, at once."""
    generator = torch.Generator().manual_seed(3)
    params = {"fc.weight": torch.randn(3, 7, generator=generator), "fc.bias": 4 * torch.randn(3, generator=generator)}
    u = {name: 0.01 * torch.randn(v.shape, generator=generator) for name, v in params.items()}
    step = 2 * float((params["fc.weight"] + u["fc.weight"]).abs().max()) / (2**bits - 1)
    for name, models in drawn(bits, params, u).items():
        error = models.double().mean(0) - (params[name] + u[name])
        # The spread is at most half a step; float32.
        assert float(error.abs().max()) < 5 * step / 2 / ROUNDINGS**0.5 + 2e-6, name


def test_rounding_to_nearest_is_not_right_on_average():
    """Why there are two: an update of a tenth of a step is lost by one, and on average kept by the other."""
    params = {"fc.weight": torch.tensor([[-0.9, 0.3, 0.9]])}
    u = {"fc.weight": torch.tensor([[0.0, 0.06, 0.0]])}
    assert sent(quantize(2), params, u)["fc.weight"][0, 1] == pytest.approx(-0.3)  # its values are -0.9, 0, 0.9
    assert float(drawn(2, params, u)["fc.weight"][:, 0, 1].mean()) == pytest.approx(0.36, abs=0.01)


numbers = st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=20)


@settings(deadline=None)
@given(numbers, numbers, st.integers(1, 12), st.integers(0, 1000))
def test_values_are_the_two_nearest_of_the_grid(w, u, bits, seed):
    size = min(len(w), len(u))
    params, update = {"w": torch.tensor([w[:size]])}, {"w": torch.tensor([u[:size]])}
    got = sent(quantize_at_random(bits), params, update, rng.key(seed, "c"))
    target, rounded = (params["w"] + update["w"]).double(), (params["w"] + got["w"]).double()
    scale = float(target.abs().max())
    step = 2 * scale / (2**bits - 1)
    slack = 2e-6 * float(params["w"].abs().max() + update["w"].abs().max()) + 1e-30  # of float32 sums
    assert float((rounded - target).abs().max()) < step + slack
    assert float(rounded.abs().max()) <= scale + slack
    if step > 1e3 * slack:
        level = (rounded + scale) / step
        assert float((level - level.round()).abs().max()) < 1e-2


def test_convolutions_dense_layers_and_their_biases_are_rounded_and_nothing_else():
    """bits 1: a weight becomes -s or s. The biases go to the grid of their weights, ..., -3 s, -s, s, 3 s, ..."""
    shapes = {"conv.weight": (4, 2, 3, 3), "conv.bias": (4,), "norm.weight": (4,), "norm.bias": (4,),
              "fc.weight": (3, 5), "fc.bias": (3,), "in_proj_weight": (6, 2), "in_proj_bias": (6,), "scale": (),
              "bias": (1,)}
    generator = torch.Generator().manual_seed(1)
    params, u = ({name: torch.randn(shape, generator=generator) for name, shape in shapes.items()} for _ in range(2))
    got = sent(quantize_at_random(1), params, u)
    for name in ("norm.weight", "norm.bias", "scale", "bias"):
        assert torch.equal(got[name], u[name]), name
    for weight, bias in (("conv.weight", "conv.bias"), ("fc.weight", "fc.bias"), ("in_proj_weight", "in_proj_bias")):
        s = (params[weight] + u[weight]).abs().max()
        torch.testing.assert_close((params[weight] + got[weight]).abs(), s.expand(shapes[weight]))
        odd = ((params[bias] + got[bias]) / s + 1) / 2
        torch.testing.assert_close(odd, odd.round(), atol=1e-5, rtol=0)


def test_a_layer_of_zeros_stays_and_so_does_its_bias():
    params = {"fc.weight": torch.zeros(2, 2), "fc.bias": torch.tensor([0.3, -0.4])}
    u = {"fc.weight": torch.zeros(2, 2), "fc.bias": torch.tensor([0.1, 0.1])}
    got = sent(quantize_at_random(4), params, u)
    assert torch.equal(got["fc.weight"], u["fc.weight"])
    torch.testing.assert_close(got["fc.bias"], u["fc.bias"])


def test_the_draws_come_from_the_key_and_differ_between_weights_tensors_and_clients():
    params = {"a.weight": torch.full((50, 40), 0.5), "b.weight": torch.full((50, 40), 0.5)}
    params = {name: v.index_fill(0, torch.tensor([0]), 1.0) for name, v in params.items()}  # the scale is 1
    u = {name: torch.zeros_like(v) for name, v in params.items()}
    one, two = (sent(quantize_at_random(1), params, u, rng.key(0, "c", client)) for client in (1, 2))
    torch.manual_seed(5)
    again = sent(quantize_at_random(1), params, u, rng.key(0, "c", 1))
    assert all(torch.equal(one[name], v) for name, v in again.items())
    patterns = [one["a.weight"][1:] > 0, one["b.weight"][1:] > 0, two["a.weight"][1:] > 0]
    for i, first in enumerate(patterns):
        assert float(first.double().mean()) == pytest.approx(0.75, abs=0.04)
        for second in patterns[i + 1:]:  # independent: they agree in 0.75^2 + 0.25^2 = 0.625 of the places
            assert float((first == second).double().mean()) == pytest.approx(0.625, abs=0.045)


def test_thirty_two_bits_change_nothing(client, send):
    u = torch.tensor([0.1, -0.7]).tolist()
    assert send(quantize_at_random(32), u, client(w=(3, 4))) == u
    assert quantize_at_random(32).payload is None
    chain, w = ClientChain([quantize_at_random(32)]), {"w": torch.ones(2, 2)}
    assert "key" not in traits_of(chain, w).reads
    assert "key" in traits_of(ClientChain([quantize_at_random(8)]), w).reads


@pytest.mark.parametrize(("bits", "size"), [(8, 12 + 4 + 8), (4, 6 + 4 + 8), (3, 5 + 4 + 8), (1, 2 + 4 + 8)])
def test_bytes_by_hand(bits, size):
    """12 weights in few bits, rounded up to bytes, and 4 bytes of scale; a bias and a BatchNorm weight in 4 each."""
    model = {"fc.weight": torch.zeros(4, 3), "fc.bias": torch.zeros(1), "norm.weight": torch.zeros(1)}
    assert quantize_at_random(bits).payload(model) == size


def test_bytes_of_a_round_by_hand():
    """An MLP 64-64-10: 4,736 weights in two tensors, 74 biases. Up 4,736 + 2 * 4 + 4 * 74 per client, down floats."""
    record = askew.run(askew.Recipe(rounds=1, client=["sgd(lr=0.1)", "quantize_at_random(8)"])).records[0]
    assert (record["bytes_up"], record["bytes_down"]) == (10 * (4736 + 8 + 296), 10 * 4 * 4810)


@pytest.mark.parametrize("bits", [0, 33])
def test_other_widths_are_refused(bits):
    with pytest.raises(askew.AskewError, match="quantize_at_random: bits must be from 1 to 32, got"):
        quantize_at_random(bits)


def test_it_comes_last():
    with pytest.raises(askew.AskewError, match="must come last: what ClientPiece adds behind it"):
        ClientChain([sgd(0.1), quantize_at_random(8), ClientPiece()]).check(Plan())
    ClientChain([sgd(0.1), quantize(8), quantize_at_random(8)]).check(Plan())  # only the last one decides what is sent


ENGINES = {"sequential": lambda task: make_engine("sequential", task),
           "parallel": lambda task: make_engine("parallel", task),
           "vectorised": lambda task: make_engine("vectorised", task),
           "in chunks": lambda task: Vectorised(task, chunk_jobs=2),
           "graphed": lambda task: Vectorised(task, graphed=True, compiled=False)}


@pytest.mark.slow
@pytest.mark.parametrize(("network", "bits"), [("dense", 4), ("dense", 8), ("convolutions and batch norm", 4)])
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "sequential"])
def test_every_engine_sends_what_the_sequential_one_does(engine, network, bits):
    """Clients of unequal sizes, one round. An engine's weights differ in the last digits, which may carry a weight to
    the other neighbour on its grid, one weight in thousands at most; the others are the same."""
    recipe = askew.Recipe(population="power_law(clients=5, exponent=0.7) + subset(0.4)", batch_size=20, rounds=1)
    recipe = recipe.replace(**NETWORKS[network])
    recipe = recipe.replace(client=[*recipe.client, f"quantize_at_random({bits})"])
    task = build_task(recipe)
    start = initial_model(task)

    def sent(engine):
        lane = Lane(engine.task, {0: start}, [Job(0, client) for client in (3, 0, 4, 1)], 2)
        return {job.client: {name: start.params[name] + v[k] for name, v in chunk.updates.items()}
                for _, chunk in engine.train([lane]) for k, job in enumerate(chunk.jobs)}

    reference, other = sent(Sequential(task)), sent(ENGINES[engine](task))
    assert set(other) == set(reference) == {0, 1, 3, 4}
    for client, model in reference.items():
        moved = 0
        for name, v in model.items():
            difference = (other[client][name] - v).abs()
            moved += int((difference > 1e-4 * float(v.abs().max()) + 1e-5).sum())
            if v.ndim >= 2:
                step, middle = 2 * float(v.abs().max()) / (2**bits - 1), (2**bits - 1) / 2
                assert float(difference.max()) < 1.01 * step, (client, name)
                torch.testing.assert_close(step * ((v / step + middle).round() - middle), v, atol=1e-5, rtol=1e-4)
                assert len(v.unique()) > 2
        assert moved < 1e-3 * sum(v.numel() for v in model.values()), client


def test_the_piece_is_for_clients_only():
    assert "quantize_at_random" in registry.names("client")
    assert "quantize_at_random" not in registry.names("server")
