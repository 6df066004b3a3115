"""Server pieces against the strategies of Flower, on the same clients' models, over 20 rounds, and where they differ.

Flower's FedAvgM is compared in test_momentum.py.
"""

import numpy as np
import pytest
import torch

from askew.core.by_hand import server_context
from askew.core.server_piece import ServerChain
from askew.core.tensors import add
from askew.pieces.server import adagrad, adam, mean, median, trimmed_mean, yogi

flwr_common = pytest.importorskip("flwr.common", reason="flwr is not installed: pip install -e '.[test,flower]'")
strategies = pytest.importorskip("flwr.server.strategy", reason="this flwr has no aggregate_fit strategies")

START, EXAMPLES, TAU = [1.0, -2.0, 0.5], (10, 30, 20, 40, 20), 1e-2


def random_rounds(count=20):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(len(EXAMPLES), len(START), generator=generator).tolist() for _ in range(count)]


def flower(make, rounds, first_round=1):
    """The models of one of its strategies."""
    w = np.array(START, np.float32)
    strategy, seen = make(initial_parameters=flwr_common.ndarrays_to_parameters([w])), []
    for number, updates in enumerate(rounds, start=first_round):
        replies = [(None, flwr_common.FitRes(
            status=flwr_common.Status(flwr_common.Code.OK, ""), num_examples=examples, metrics={},
            parameters=flwr_common.ndarrays_to_parameters([w + np.array(u, np.float32)])))
            for u, examples in zip(updates, EXAMPLES, strict=True)]
        result, _ = strategy.aggregate_fit(number, replies, [])
        w = flwr_common.parameters_to_ndarrays(result)[0].astype(np.float32)
        seen.append(w.tolist())
    return seen


def ours(pieces, rounds, v=None, rates=None):
    """The models of a chain of ours; `v` is where the second moment starts, `rates` multiply each round's step."""
    chain, params, seen = ServerChain(pieces), {"w": torch.tensor(START)}, []
    state = chain.init(params)
    if v is not None:
        state = (state[0], {**state[1], "v": {"w": torch.full((len(START),), v)}})
    for number, updates in enumerate(rounds):
        ctx = server_context(updates, w=params["w"].tolist(), round=number, examples=EXAMPLES, needs=chain.needs)
        u, state = chain.update({}, state, ctx)
        rate = 1.0 if rates is None else rates[number]
        params = add(params, {"w": rate * u["w"]})
        seen.append(params["w"].tolist())
    return seen


def test_adagrad_and_yogi_differ_in_the_start_of_v_alone():
    """Flower starts v at 0, the paper at tau^2 or above."""
    rounds = random_rounds()
    for ours_, theirs in (
            (adagrad(0.1, tau=TAU), lambda **rest: strategies.FedAdagrad(eta=0.1, tau=TAU, **rest)),
            (yogi(0.1, 0.8, 0.9, TAU),
             lambda **rest: strategies.FedYogi(eta=0.1, beta_1=0.8, beta_2=0.9, tau=TAU, **rest))):
        expected = flower(theirs, rounds)
        np.testing.assert_allclose(ours([mean(), ours_], rounds, v=0.0), expected, rtol=1e-4, atol=1e-5)
        assert np.abs(np.array(ours([mean(), ours_], rounds)) - expected).max() > 1e-6


def test_adam_differs_in_the_start_of_v_and_in_a_correction_for_the_start():
    """Flower's rate in round t (from 1) is eta sqrt(1 - beta2^(t+1)) / (1 - beta1^(t+1)): Kingma and Ba's at t + 1."""
    rounds, beta1, beta2 = random_rounds(), 0.8, 0.9
    expected = flower(lambda **rest: strategies.FedAdam(eta=0.1, beta_1=beta1, beta_2=beta2, tau=TAU, **rest), rounds)
    rates = [(1 - beta2 ** (t + 1)) ** 0.5 / (1 - beta1 ** (t + 1)) for t in range(1, 21)]
    np.testing.assert_allclose(ours([mean(), adam(0.1, beta1, beta2, TAU)], rounds, v=0.0, rates=rates), expected,
                               rtol=1e-4, atol=1e-5)
    assert np.abs(np.array(ours([mean(), adam(0.1, beta1, beta2, TAU)], rounds)) - expected).max() > 1e-2


def test_the_median_is_flowers():
    """The median of models is the model plus the median of updates."""
    rounds = random_rounds()
    np.testing.assert_allclose(ours([median()], rounds), flower(strategies.FedMedian, rounds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_the_trimmed_mean_is_flowers(share):
    """Both leave out the share at each end. (Where floats put share times n just below a whole number,
    Flower leaves out one less.)"""
    rounds = random_rounds()
    expected = flower(lambda **rest: strategies.FedTrimmedAvg(beta=share, **rest), rounds)
    np.testing.assert_allclose(ours([trimmed_mean(share)], rounds), expected, rtol=1e-4, atol=1e-5)
