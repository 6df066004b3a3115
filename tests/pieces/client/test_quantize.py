"""Quantised models and updates: values, error, bytes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import askew
from askew.core.client_piece import ClientContext
from askew.core.tensors import add, num_bytes
from askew.pieces.client import quantize
from askew.pieces.methods import fedcd


def test_the_model_by_hand(client, send):
    """bits 3: 3 steps each way. w = (-0.5, 0.1, 0.1), update (-0.4, 0.1, 0.2): the model (-0.9, 0.2, 0.3) has
    step 0.3 and becomes (-0.9, 0.3, 0.3); the update is (-0.4, 0.2, 0.2)."""
    ctx = client(w=(-0.5, 0.1, 0.1))
    assert send(quantize(3), (-0.4, 0.1, 0.2), ctx) == pytest.approx([-0.4, 0.2, 0.2], abs=1e-6)


def test_the_update_by_hand(client, send):
    """bits 2: one step each way. (-0.8, 0.3, 0.5) has step 0.8 and becomes (-0.8, 0, 0.8), whatever the model is."""
    ctx = client(w=(5, 6, 7))
    assert send(quantize(2, "update"), (-0.8, 0.3, 0.5), ctx) == pytest.approx([-0.8, 0.0, 0.8])


def sent(piece, params, u):
    """The update that a client sends which began with `params` and has moved by u."""
    return piece.end({"update": u}, (), (), ClientContext(add(params, u), params, 0))[0]["update"]


def test_each_tensor_has_its_own_step():
    u = {"small": torch.tensor([0.01, 0.004]), "large": torch.tensor([10.0, 4.0]), "none": torch.zeros(2)}
    got = sent(quantize(2, "update"), u, u)
    assert {name: v.tolist() for name, v in got.items()} == {
        "small": pytest.approx([0.01, 0.0]), "large": [10.0, 0.0], "none": [0.0, 0.0]}


numbers = st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=20)


@settings(deadline=None)
@given(numbers, numbers, st.integers(2, 12), st.sampled_from(["model", "update"]))
def test_the_error_is_at_most_half_a_step_and_the_values_are_few(w, u, bits, what):
    size = min(len(w), len(u))
    params, update = {"w": torch.tensor(w[:size])}, {"w": torch.tensor(u[:size])}
    got = sent(quantize(bits, what), params, update)
    target = update["w"] + params["w"] if what == "model" else update["w"]
    rounded = got["w"] + params["w"] if what == "model" else got["w"]
    largest = float(target.abs().max())
    step = largest / (2 ** (bits - 1) - 1)
    slack = 2e-6 * float(params["w"].abs().max() + update["w"].abs().max()) + 1e-30  # of float32 sums
    assert float((rounded - target).abs().max()) <= step / 2 + slack
    if step > 1e3 * slack:
        levels = rounded.double() / step
        assert float((levels - levels.round()).abs().max()) < 1e-2  # multiples of the step
        assert float(levels.round().abs().max()) <= 2 ** (bits - 1) - 1
        assert float(rounded.abs().max()) == pytest.approx(largest, rel=1e-4)  # the largest keeps its value


def test_thirty_two_bits_change_nothing(client, send):
    u = torch.tensor([0.1, -0.7]).tolist()
    assert send(quantize(32), u, client(w=(3, 4))) == u
    assert quantize(32).payload is None


@pytest.mark.parametrize(("bits", "size"), [(8, 10 + 4 + 3 + 4), (4, 5 + 4 + 2 + 4), (3, 4 + 4 + 2 + 4)])
def test_bytes_by_hand(bits, size):
    """Tensors of 10 and 3 weights: the bits of each rounded up to bytes, and 4 bytes for each tensor's step."""
    assert quantize(bits).payload({"a": torch.zeros(10), "b": torch.zeros(3)}) == size


def test_bytes_of_a_round_by_hand():
    """10 clients, 4,810 weights in 4 tensors: 40 * 4,810 bytes each way; quantised to 8 bits 4,810 + 16 a client."""
    base = askew.Recipe(rounds=1)
    plain = askew.run(base).records[0]
    assert (plain["bytes_up"], plain["bytes_down"]) == (10 * 4 * 4810, 10 * 4 * 4810)
    up = askew.run(base.replace(client=[*base.client, "quantize(8)"])).records[0]
    assert (up["bytes_up"], up["bytes_down"]) == (10 * (4810 + 16), 10 * 4 * 4810)
    both = askew.run(fedcd(base, rounding="nearest")).records[0]
    assert (both["bytes_up"], both["bytes_down"]) == (10 * (4810 + 16), 10 * (4810 + 16))
    few = askew.run(base.replace(fraction=0.3)).records[0]
    assert few["bytes_up"] == 3 * 4 * 4810
    assert num_bytes(askew.run(base).model) == 4 * 4810


def test_the_uploaded_model_has_few_values():
    """One client, uploads of 3 bits: what the server stores of each tensor takes at most 7 values."""
    model = askew.run(askew.Recipe(rounds=1, population="pooled()", client=["sgd(lr=0.1)", "quantize(3)"])).model
    for name, v in model.items():
        step = float(v.abs().max()) / 3
        levels = v / step
        assert float((levels - levels.round()).abs().max()) < 1e-4, name
        assert len(levels.round().unique()) <= 7


@pytest.mark.parametrize("bits", [1, 33])
def test_other_widths_are_refused(bits):
    with pytest.raises(askew.AskewError, match="quantize: bits must be from 2 to 32"):
        quantize(bits)
