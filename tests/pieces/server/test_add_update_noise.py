"""Noise on the update: its size, and that each round has its own."""

import pytest
import torch

from askew.core.by_hand import server_context
from askew.pieces.server import add_update_noise


@pytest.mark.parametrize("std", [0.01, 2.0])
def test_mean_and_deviation(std):
    """40,000 numbers: the deviation is known to 0.35%, the mean to 0.005 deviations; five times that is allowed."""
    u = {"a": torch.full((100, 300), 3.0), "b": torch.full((10_000,), 3.0)}
    noisy, _ = add_update_noise(std).update(u, (), server_context([(0,)]))
    noise = torch.cat([(v - 3).flatten() for v in noisy.values()])
    assert float(noise.std()) == pytest.approx(std, rel=0.018)
    assert float(noise.mean()) == pytest.approx(0, abs=0.025 * std)
    assert {name: v.shape for name, v in noisy.items()} == {name: v.shape for name, v in u.items()}


def test_rounds_have_noise_of_their_own_and_none_changes_nothing():
    u = {"w": torch.zeros(5)}
    first, again, next_round = (add_update_noise(1.0).update(u, (), server_context([(0,)], round=number))[0]["w"]
                                for number in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, next_round)
    assert torch.equal(add_update_noise(0.0).update(u, (), server_context([(0,)]))[0]["w"], u["w"])
