"""A rate that the server lowers: f times the optimiser's step. Runs are in tests/pieces/server/test_plateau.py."""

import pytest
import torch

from askew.core.by_hand import client_update
from askew.pieces.client import adam, scale_by_server, sgd


@pytest.mark.parametrize("at_rate", [sgd, lambda lr: sgd(lr, momentum=0.9, nesterov=True, weight_decay=0.1), adam],
                         ids=["sgd", "momentum", "adam"])
def test_it_is_a_lower_rate(at_rate):
    shared = {"factor": torch.tensor(0.25)}
    scaled = client_update([at_rate(0.2), scale_by_server()], [1.0, -3.0], w=[1.0, 2.0], shared=shared)
    torch.testing.assert_close(scaled, client_update(at_rate(0.05), [1.0, -3.0], w=[1.0, 2.0]))
