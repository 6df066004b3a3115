"""Server momentum: by hand, against torch.optim.SGD, and against Flower's FedAvgM."""

import numpy as np
import pytest
import torch

import askew
from askew.core.server_piece import ServerChain
from askew.core.tensors import add
from askew.pieces.server import mean, momentum, scale


def rounds(piece, server, updates_of_rounds, w):
    """The models after each round."""
    ctx = server(updates_of_rounds[0], w=w)
    params, state, seen = ctx.params, piece.init(ctx.params), []
    for number, updates in enumerate(updates_of_rounds):
        ctx = server(updates, weights=[1.0, 3.0], w=params["w"].tolist(), round=number)
        u, state = piece.update({}, state, ctx)
        params = add(params, u)
        seen.append(params["w"].tolist())
    return seen


def random_rounds(count, size):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(2, size, generator=generator).tolist() for _ in range(count)]


def test_plain_by_hand(server):
    """beta 0.5; means (weights 1, 3) of round 1: (1 * 4 + 3 * 0) / 4 = 1, of round 2: (0 + 3 * 4) / 4 = 3.

    v = 1, then 0.5 * 1 + 3 = 3.5; w = 10 + 1 = 11, then 11 + 3.5 = 14.5.
    """
    chain = ServerChain([mean(), momentum(0.5)])
    assert rounds(chain, server, [[(4,), (0,)], [(0,), (4,)]], [10.0]) == [[11.0], [14.5]]


def test_nesterov_by_hand(server):
    """The same updates: v = 1, then 3.5; steps 1 + 0.5 * 1 = 1.5, then 3 + 0.5 * 3.5 = 4.75."""
    piece = ServerChain([mean(), momentum(0.5, nesterov=True)])
    assert rounds(piece, server, [[(4,), (0,)], [(0,), (4,)]], [10.0]) == [[11.5], [16.25]]


def test_beta_zero_leaves_the_update_as_it_is(server):
    updates = random_rounds(5, 4)
    for nesterov in (False, True):
        with_it = rounds(ServerChain([mean(), momentum(0.0, nesterov)]), server, updates, [1.0, 2.0, 3.0, 4.0])
        assert with_it == rounds(mean(), server, updates, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("nesterov", [False, True])
def test_it_is_torch_sgd_on_the_negative_mean_update(server, nesterov):
    """20 rounds; the optimiser at the server sees -mean update as its gradient, at rate 1."""
    updates, start = random_rounds(20, 3), [1.0, -2.0, 0.5]
    w = torch.nn.Parameter(torch.tensor(start))
    optimiser = torch.optim.SGD([w], lr=1.0, momentum=0.9, nesterov=nesterov)
    expected = []
    for pair in updates:
        a, b = torch.tensor(pair)
        w.grad = -(a + 3 * b) / 4
        optimiser.step()
        expected.append(w.tolist())
    got = rounds(ServerChain([mean(), momentum(0.9, nesterov)]), server, updates, start)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_it_is_flowers_fedavgm(server):
    """20 rounds of Flower's own strategy on the same client models; it knows the plain form, with a server rate."""
    flwr_common = pytest.importorskip("flwr.common", reason="flwr is not installed")
    strategies = pytest.importorskip("flwr.server.strategy", reason="this flwr has no aggregate_fit strategies")
    updates, w = random_rounds(20, 3), np.array([1.0, -2.0, 0.5], np.float32)
    strategy = strategies.FedAvgM(server_learning_rate=0.5, server_momentum=0.9,
                                  initial_parameters=flwr_common.ndarrays_to_parameters([w]))
    got = rounds(ServerChain([mean(), momentum(0.9), scale(0.5)]), server, updates, w.tolist())
    for number, pair in enumerate(updates, start=1):
        replies = [(None, flwr_common.FitRes(
            status=flwr_common.Status(flwr_common.Code.OK, ""), num_examples=examples, metrics={},
            parameters=flwr_common.ndarrays_to_parameters([w + np.array(u, np.float32)])))
            for u, examples in zip(pair, (10, 30), strict=True)]
        result, _ = strategy.aggregate_fit(number, replies, [])
        w = flwr_common.parameters_to_ndarrays(result)[0]
        np.testing.assert_allclose(got[number - 1], w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beta", [-0.1, 1.0])
def test_a_beta_outside_its_range_is_refused(beta):
    with pytest.raises(askew.AskewError, match=r"momentum: beta must be in \[0, 1\), got"):
        momentum(beta)
