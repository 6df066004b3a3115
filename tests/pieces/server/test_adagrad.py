"""Adagrad at the server: by hand, and against torch.optim.Adagrad."""

import pytest
import torch

from askew.core.by_hand import server_context, server_update
from askew.pieces.server import adagrad


def test_three_rounds_by_hand():
    """lr 1, tau 1; mean updates 2, 2, -4; v from 1: 5, 9, 25; steps 2 / (sqrt(5) + 1), 2 / 4, -4 / 6."""
    rounds = [(1,), (3,)], [(2,), (2,)], [(-4,), (-4,)]
    steps = [float(server_update(adagrad(lr=1.0, tau=1.0), *rounds[:number])) for number in (1, 2, 3)]
    assert steps == pytest.approx([0.61803, 0.5, -0.66667], abs=1e-5)


def test_its_direction_may_keep_a_part_of_the_past():
    """beta1 0.5: m = 1, then 1.5, over the same roots (updates 2 and 2)."""
    assert float(server_update(adagrad(lr=1.0, beta1=0.5, tau=1.0), [(2,)], [(2,)])) == pytest.approx(1.5 / 4)


def test_it_is_torchs_adagrad():
    """20 rounds, the sum of squares from tau^2 and eps = tau."""
    generator = torch.Generator().manual_seed(3)
    w = torch.nn.Parameter(torch.zeros(5))
    optimiser = torch.optim.Adagrad([w], lr=0.1, initial_accumulator_value=0.01**2, eps=0.01)
    piece = adagrad(0.1, tau=0.01)
    state, params = piece.init({"w": torch.zeros(5)}), torch.zeros(5)
    for _ in range(20):
        u = torch.randn(5, generator=generator)
        step, state = piece.update({"w": u}, state, server_context([u.tolist()]))
        params = params + step["w"]
        w.grad = -u
        optimiser.step()
        torch.testing.assert_close(params, w.detach(), rtol=1e-5, atol=1e-6)
