"""FedDyn's server by hand. Whole rounds are in tests/pieces/client/test_add_dynamic_regulariser.py."""

import pytest
import torch

from askew.core.by_hand import server_context, server_update
from askew.pieces.server import correct_dynamically


def test_two_rounds_by_hand():
    """alpha 0.5, two clients. Round 1: u = 2, h = -1, update 2 + 2 = 4. Round 2: u = 1, h = -1.5, update 1 + 3 = 4."""
    assert server_update(correct_dynamically(0.5), [(1,), (3,)]).tolist() == [4.0]
    assert server_update(correct_dynamically(0.5), [(1,), (3,)], [(1,), (1,)]).tolist() == [4.0]


@pytest.mark.parametrize("alpha", [0.01, 0.5, 10.0])
def test_in_the_first_round_with_all_clients_it_doubles_the_update_whatever_alpha(alpha):
    assert float(server_update(correct_dynamically(alpha), [(1,), (3,)])) == pytest.approx(4.0)


def test_a_part_of_the_clients_counts_by_its_share():
    """Two of eight: h = -0.5 * (2 / 8) * 2 = -0.25, update 2 + 0.5."""
    ctx = server_context([(1,), (3,)], clients=8)
    u, h = correct_dynamically(0.5).update(ctx.cohort.mean, {"w": torch.zeros(1)}, ctx)
    assert (float(u["w"]), float(h["w"])) == pytest.approx((2.5, -0.25))
