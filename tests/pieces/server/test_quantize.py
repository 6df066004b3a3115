"""Quantised global models: by hand, and what may stand behind."""

import pytest

import askew
from askew.core.by_hand import server_update
from askew.core.client_piece import Plan
from askew.core.server_piece import ServerChain
from askew.pieces.server import evaluate_average, mean, momentum, quantize


def test_the_model_and_the_update_by_hand():
    """bits 3, w = (-0.5, 0.1, 0.1), mean update (-0.4, 0.1, 0.2): the model (-0.9, 0.2, 0.3) has step 0.3 and becomes
    (-0.9, 0.3, 0.3), so that the update is (-0.4, 0.2, 0.2). The update alone in 2 bits: step 0.4, (-0.4, 0, 0)."""
    updates = [(-0.4, 0.1, 0.19)]
    of_model = server_update([mean(), quantize(3)], updates, w=[-0.5, 0.1, 0.1])
    assert of_model.tolist() == pytest.approx([-0.4, 0.2, 0.2], abs=1e-6)
    of_update = server_update([mean(), quantize(2, "update")], updates, w=[5, 6, 7])
    assert of_update.tolist() == pytest.approx([-0.4, 0, 0], abs=1e-6)


def test_thirty_two_bits_change_nothing():
    for what in ("model", "update"):
        piece = quantize(32, what)
        assert (server_update([mean(), piece], [(0.1, -0.7)], w=[3, 4]).tolist()
                == server_update(mean(), [(0.1, -0.7)]).tolist())
        assert piece.payload is None


def test_only_what_watches_or_quantises_again_may_stand_behind():
    ServerChain([mean(), quantize(8), quantize(4), evaluate_average(), quantize(32)]).check(Plan())
    with pytest.raises(askew.AskewError,
                       match="quantize must come last: what momentum adds behind it would not be on its grid"):
        ServerChain([mean(), quantize(8), momentum(0.5)]).check(Plan())


@pytest.mark.parametrize("bits", [1, 33])
def test_other_widths_are_refused(bits):
    with pytest.raises(askew.AskewError, match="quantize: bits must be from 2 to 32"):
        quantize(bits)
