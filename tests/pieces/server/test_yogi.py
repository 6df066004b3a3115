"""Yogi at the server: by hand over three rounds."""

import pytest

from askew.core.by_hand import server_update
from askew.pieces.server import adam, yogi


def test_three_rounds_by_hand():
    """lr 1, beta1 0.5, beta2 0.75, tau 1; mean updates 2, 1, -4. m from 0, v from tau^2 = 1.

    m = 1; v = 1 is below 4: 1 + 0.25 * 4 = 2: 1 / (1.41421 + 1) = 0.41421.
    m = 1; v = 2 is above 1: 2 - 0.25 * 1 = 1.75: 1 / 2.32288 = 0.43050.
    m = -1.5; v = 1.75 is below 16: 1.75 + 0.25 * 16 = 5.75: -1.5 / 3.39792 = -0.44145.
    """
    rounds = [(1,), (3,)], [(0,), (2,)], [(-4,), (-4,)]
    piece = yogi(lr=1.0, beta1=0.5, beta2=0.75, tau=1.0)
    steps = [float(server_update(piece, *rounds[:number])) for number in (1, 2, 3)]
    assert steps == pytest.approx([0.41421, 0.43050, -0.44145], abs=1e-5)


def test_v_never_falls_faster_than_by_the_squares_that_come():
    """Adam forgets a large v by a quarter per round, Yogi by a quarter of the new square: its steps are shorter."""
    rounds = [[(100,)], [(1,)], [(1,)], [(1,)]]
    arguments = {"lr": 1.0, "beta1": 0.0, "beta2": 0.75, "tau": 1e-3}
    slow, quick = (float(server_update(make(**arguments), *rounds)) for make in (yogi, adam))
    assert slow == pytest.approx(1 / (2500 + 1e-6 - 0.75) ** 0.5, rel=1e-4)
    assert quick == pytest.approx(1 / (2500 * 0.421875 + 0.25 * (0.5625 + 0.75 + 1)) ** 0.5, rel=1e-4)
