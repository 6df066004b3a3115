"""FedExP: by hand, never shorter than FedAvg, and FedAvg itself for clients that agree."""

import pytest
import torch

import askew
from askew.core.by_hand import server_update
from askew.core.server_piece import ServerChain
from askew.pieces.methods import fedavg, fedexp
from askew.pieces.server import extrapolate, mean


@pytest.mark.parametrize(("updates", "epsilon", "rate"), [
    ([(3, 4), (3, -4)], 0.0, 25 / 18),  # mean (3, 0): 25 / (2 * 9)
    ([(3, 4), (3, -4)], 3.5, 1.0),  # 25 / (2 * 12.5)
    ([(3, 4), (3, -4)], 1.0, 1.25),  # 25 / (2 * 10)
    ([(3, 4), (0, 0), (3, -4), (0, 0)], 0.0, 12.5 / 4.5),  # mean (1.5, 0): mean square 12.5
    ([(1, 2), (1, 2)], 0.0, 1.0)])  # 5 / 10 is below 1
def test_by_hand(updates, epsilon, rate):
    average = torch.tensor(updates, dtype=torch.float32).mean(dim=0)
    torch.testing.assert_close(server_update(extrapolate(epsilon), updates), rate * average)


def test_the_weights_are_those_of_the_mean():
    """Weights 3 and 1: mean (3, 2), mean square 25, rate 25 / 26 below 1; with (3, -4) heavier by 0.5: mean (3, 0)."""
    assert server_update(extrapolate(0.0), [(3, 4), (3, -4)], weights=[3, 1]).tolist() == pytest.approx([3, 2])
    assert server_update(extrapolate(0.0), [(3, 4), (3, -4)], weights=[2, 2]).tolist() == pytest.approx([25 / 6, 0])


def test_never_shorter_than_fedavg():
    generator = torch.Generator().manual_seed(0)
    rates = []
    for _ in range(50):
        updates = (torch.randn(4, 3, generator=generator) + torch.randn(3, generator=generator)).tolist()
        with_it, without = (server_update(pieces, updates)
                            for pieces in ([mean("uniform"), extrapolate(1e-3)], mean("uniform")))
        rates.append(float(with_it.norm() / without.norm()))
        torch.testing.assert_close(with_it, rates[-1] * without, rtol=1e-4, atol=1e-6)
    assert min(rates) > 1 - 1e-6
    assert max(rates) > 1.5


def test_it_is_fedavg_where_all_clients_are_alike():
    """A single client: its update is the mean, and 1/2 is below 1."""
    recipe = askew.Recipe(population="pooled()", batch_size=0, rounds=3, model="mlp(hidden=[8])")
    plain, extrapolated = askew.run(fedavg(recipe)), askew.run(fedexp(recipe))
    for name, v in plain.model.items():
        torch.testing.assert_close(extrapolated.model[name], v)


def test_a_mean_of_nothing_stays_nothing():
    chain = ServerChain([mean("uniform"), extrapolate(1e-3)])
    assert server_update(chain.pieces, [(1, 0), (-1, 0)]).tolist() == [0.0, 0.0]
