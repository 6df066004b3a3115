"""SCAFFOLD's server: the control variate by hand. Whole rounds are in tests/pieces/client/test_correct_drift.py."""

import pytest
import torch

from askew.core.by_hand import server_context
from askew.pieces.server import update_control
from askew.pieces.statistic import MeanOf


def test_two_rounds_by_hand():
    """Four clients. Round 1: two send 2 and 4: c = (2 / 4) * 3 = 1.5. Round 2: one sends -2: c = 1.5 - 2 / 4 = 1."""
    piece, state = update_control(), {"w": torch.zeros(1)}
    for changes, expected in (([[2.0], [4.0]], 1.5), ([[-2.0]], 1.0)):
        ctx = server_context([(7,)] * len(changes), needs=[MeanOf("control")],
                             sent={"control": {"w": torch.tensor(changes)}}, clients=4)
        u, state = piece.update({"w": torch.tensor([7.0])}, state, ctx)
        assert u["w"].tolist() == [7.0]
        assert float(state["w"]) == pytest.approx(expected)
    assert piece.broadcast(state)["control"] is state
    assert piece.init({"w": torch.ones(3)})["w"].tolist() == [0.0, 0.0, 0.0]


def test_sizes_do_not_count():
    """Clients with 1 and 99 examples: the changes are averaged alike."""
    ctx = server_context([(0,), (0,)], examples=[1, 99], needs=[MeanOf("control")],
                         sent={"control": {"w": torch.tensor([[2.0], [4.0]])}})
    assert float(update_control().update({}, {"w": torch.zeros(1)}, ctx)[1]["w"]) == pytest.approx(3.0)
