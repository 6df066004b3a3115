"""The mean under its three weightings."""

import pytest
import torch

import askew
from askew.core.server_piece import ServerChain
from askew.core.statistic import Senders
from askew.pieces.server import mean, scale

SENDERS = Senders([0, 1], examples=torch.tensor([10.0, 20.0]), steps=torch.tensor([1.0, 2.0]),
                  scores=torch.tensor([0.9, 0.1]), losses=torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize(("weights", "expected"), [
    ("examples", [3.0, 0.0]),  # (10 (1, 2) + 20 (4, -1)) / 30
    ("uniform", [2.5, 0.5]),  # ((1, 2) + (4, -1)) / 2
    ("score", [1.3, 1.7]),  # 0.9 (1, 2) + 0.1 (4, -1)
])
def test_two_clients_by_hand(server, apply, weights, expected):
    piece = mean(weights)
    ctx = server([(1, 2), (4, -1)], weights=piece.weigh(SENDERS).tolist())
    assert apply(piece, ctx) == pytest.approx(expected)


def test_what_stood_before_it_plays_no_part(server):
    ctx = server([(1.0,), (3.0,)])
    assert mean().update({"w": torch.tensor([99.0])}, (), ctx)[0]["w"].tolist() == [2.0]


def test_scale_multiplies_by_the_servers_rate(server, apply):
    """0.5 * mean of 1 and 3 = 1."""
    assert apply(scale(0.5), server([(1.0, 0.0), (3.0, 4.0)])) == [1.0, 1.0]
    assert apply(ServerChain([mean(), scale(0.0)]), server([(1.0,), (3.0,)])) == [0.0]


def test_a_negative_rate_is_refused():
    with pytest.raises(askew.AskewError, match="scale: lr must not be negative, got -1"):
        scale(-1.0)
