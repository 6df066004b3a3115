"""Random networks in random federations, vectorised against one by one: 20 cases, with ASKEW_LONG=1 200.

One case by itself: `ASKEW_CASE=17 pytest tests/conformance/test_random_networks.py`.
"""

from __future__ import annotations

import os

import pytest
import torch
from conform.forms import COMPILES, FORMS, LONG, assert_same_training, one_by_one, train
from conform.generate import case
from torch import nn

from askew.engine.sample import sample

pytestmark = pytest.mark.slow  # whole runs: tens of them

CASES = [int(os.environ["ASKEW_CASE"])] if "ASKEW_CASE" in os.environ else range(200 if LONG else 20)
COMPILED = range(0, 200, 20) if LONG and COMPILES else ()  # to compile takes many seconds for each


def check(number, forms):
    """Small rates and few steps, so that training is not chaotic: an update is then nearly a sum of gradients at
    the start, and rounding in it is not fed back into the next ones. What is left agrees to 1e-3 of each
    tensor's length, most to 1e-5."""
    made = case(number)
    with torch.random.fork_rng(devices=[]):
        try:
            task = made.task()
            clients = sample(task, 1)
            expected = one_by_one(task, clients)
            for form in forms:
                assert_same_training(train(FORMS[form], task, clients), expected)
        except Exception as error:
            again = f"ASKEW_CASE={number} pytest tests/conformance/test_random_networks.py"
            raise AssertionError(f"{again}   # {type(error).__name__}: {error}\n{made}") from error


@pytest.mark.parametrize("number", CASES)
def test_a_random_network_trains_as_it_does_one_by_one(number):
    check(number, ["eager", "graphed", "graphed, two at a time", *(["compiled"] if number in COMPILED else [])])


def test_a_number_makes_the_same_case_again_and_another_one_another():
    first, again, other = case(3), case(3), case(4)
    assert str(first) == str(again) != str(other)
    assert all(torch.equal(v, again.network.state_dict()[name]) for name, v in first.network.state_dict().items())
    assert torch.equal(first.data.train.x, again.data.train.x)


def test_the_cases_hold_every_layer_of_the_list():
    """Over 200 cases; a list that no case is drawn from shows nothing."""
    wanted = {nn.Conv2d, nn.BatchNorm2d, nn.BatchNorm1d, nn.GroupNorm, nn.LayerNorm, nn.MaxPool2d, nn.AvgPool2d,
              nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Dropout, nn.Dropout2d, nn.Flatten, nn.Linear,
              nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.LSTM, nn.GRU, nn.Embedding}
    cases = [case(number) for number in range(200)]
    seen = {type(layer) for made in cases for layer in made.network.modules()}
    assert wanted <= seen
    convolutions = [layer for made in cases for layer in made.network.modules() if isinstance(layer, nn.Conv2d)]
    assert ({layer.groups > 1 for layer in convolutions} == {layer.bias is None for layer in convolutions}
            == {True, False})
    assert {1, 2} <= {layer.stride[0] for layer in convolutions}
    assert {1, 2} <= {layer.dilation[0] for layer in convolutions}
    assert any(not p.requires_grad for made in cases for p in made.network.parameters())
    assert {len(made.sizes) for made in cases} == set(range(1, 7))
