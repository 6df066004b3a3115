"""Noise at the server: how much, how distributed, fresh in each round, and only behind a mean that counts all alike."""

import pytest
import torch
from scipy.stats import kstest

import askew
from askew.core.by_hand import server_context, server_update
from askew.pieces.methods import dp_fedavg, fedavg
from askew.pieces.server import add_noise, mean


@pytest.mark.parametrize(("multiplier", "length", "clients", "sigma"),
                         [(0.5, 4.0, 2, 1.0), (1.0, 1.0, 4, 0.25), (2.0, 0.1, 1, 0.2)])
def test_its_size_and_distribution(multiplier, length, clients, sigma):
    """20,000 coordinates: the mean within 4 sigma / sqrt(20,000), the spread within 2%, a normal
    distribution by Kolmogorov-Smirnov."""
    noise = server_update(add_noise(multiplier, length), [[3.0] * 20_000] * clients) - 3.0
    assert abs(float(noise.mean())) < 4 * sigma / 20_000**0.5
    assert float(noise.std()) == pytest.approx(sigma, rel=0.02)
    assert kstest((noise / sigma).numpy(), "norm").pvalue > 1e-3


def test_each_round_and_each_tensor_draws_its_own():
    piece = add_noise(1.0, 1.0)
    draws = [piece.update({"a": torch.zeros(100), "b": torch.zeros(100)}, (), server_context([(0,)], round=number))[0]
             for number in (0, 1)]
    rows = torch.stack([v for u in draws for v in u.values()])
    assert torch.corrcoef(rows).fill_diagonal_(0).abs().max() < 0.4
    again = piece.update({"a": torch.zeros(100), "b": torch.zeros(100)}, (), server_context([(0,)], round=0))[0]
    assert torch.equal(again["a"], draws[0]["a"])


def test_without_noise_the_update_stays_as_it_is():
    assert server_update(add_noise(0.0, 1.0), [(1, 2), (3, 4)]).tolist() == [2.0, 3.0]


def test_without_noise_and_with_long_updates_allowed_it_is_fedavg():
    recipe = askew.Recipe(population="iid(clients=5)", rounds=2, batch_size=32, model="mlp(hidden=[8])")
    plain = askew.run(fedavg(recipe).replace(server=["mean('uniform')"])).model
    private = askew.run(dp_fedavg(recipe, noise=0.0, length=1e6)).model
    for name, v in plain.items():
        torch.testing.assert_close(private[name], v)


def test_a_mean_in_which_one_client_counts_more_than_another_is_refused(refused):
    """One client's data could move it by more than length / |S|."""
    with refused("add_noise: clients must count the same before noise; use mean\\('uniform'\\)"):
        askew.run(askew.Recipe(client=["sgd(0.1)", "clip_update(1.0)"], server=[mean(), add_noise(1.0, 1.0)]))
