"""The mean without extremes: by hand, and against scipy."""

import numpy as np
import pytest
import torch
from scipy.stats import trim_mean

import askew
from askew.core.by_hand import server_update
from askew.pieces.methods import fedavg
from askew.pieces.methods import trimmed_mean as by_trimmed_mean
from askew.pieces.server import mean, trimmed_mean


def test_by_hand():
    """Five clients: 0.2 leaves out one at each end, 0.4 two, 0.19 none."""
    updates = [(1, 0), (2, -50), (3, 2), (4, 1), (100, 3)]
    assert server_update(trimmed_mean(0.2), updates).tolist() == [3.0, 1.0]
    assert server_update(trimmed_mean(0.4), updates).tolist() == [3.0, 1.0]
    assert server_update(trimmed_mean(0.19), updates).tolist() == pytest.approx([22.0, -8.8])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.25, 0.3, 0.45])
@pytest.mark.parametrize("clients", [1, 2, 5, 10])
def test_it_is_scipys(share, clients):
    updates = torch.randn(clients, 6, generator=torch.Generator().manual_seed(clients))
    np.testing.assert_allclose(server_update(trimmed_mean(share), updates.tolist()),
                               trim_mean(updates.numpy(), share, axis=0), rtol=1e-5, atol=1e-6)


def test_a_product_that_floats_put_just_below_a_whole_number_counts_as_that_number():
    """0.29 * 100 is 28.999999999999996: 29 at each end, where scipy (and Flower with it) leaves out 28."""
    assert int(0.29 * 100) == 28
    assert float(server_update(trimmed_mean(0.29), [(float(i**2),) for i in range(100)])) == pytest.approx(
        sum(i**2 for i in range(29, 71)) / 42, rel=1e-5)


def test_without_trimming_it_is_the_plain_mean():
    updates = torch.randn(7, 4, generator=torch.Generator().manual_seed(1)).tolist()
    torch.testing.assert_close(server_update(trimmed_mean(0.0), updates), server_update(mean("uniform"), updates))


def test_without_trimming_a_run_is_that_of_the_uniform_mean():
    recipe = askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20)", rounds=2, batch_size=32,
                          model="mlp(hidden=[8])")
    plain = askew.run(fedavg(recipe).replace(server=["mean('uniform')"]))
    trimmed = askew.run(by_trimmed_mean(recipe, share=0.0))
    for name, v in plain.model.items():
        torch.testing.assert_close(trimmed.model[name], v, rtol=1e-4, atol=1e-6)


def test_half_at_each_end_is_refused(refused):
    with refused(r"trimmed_mean: share must be in \[0, 0.5\), got 0.5"):
        trimmed_mean(0.5)
