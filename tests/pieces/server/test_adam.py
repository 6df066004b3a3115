"""Adam at the server: by hand over three rounds, and against torch.optim.Adam where both do the same."""

import pytest
import torch

from askew.core.by_hand import server_context, server_update
from askew.pieces.server import adam


def test_three_rounds_by_hand():
    """lr 1, beta1 0.5, beta2 0.75, tau 1; mean updates 2, 2, -4. m from 0, v from tau^2 = 1.

    m = 1, v = 0.75 + 1 = 1.75: 1 / (1.3229 + 1) = 0.43050.
    m = 1.5, v = 1.3125 + 1 = 2.3125: 1.5 / 2.52069 = 0.59508.
    m = -1.25, v = 1.734375 + 4 = 5.734375: -1.25 / 3.39466 = -0.36823.
    """
    rounds = [(1,), (3,)], [(2,), (2,)], [(-4,), (-4,)]
    piece = adam(lr=1.0, beta1=0.5, beta2=0.75, tau=1.0)
    steps = [float(server_update(piece, *rounds[:number])) for number in (1, 2, 3)]
    assert steps == pytest.approx([0.43050, 0.59508, -0.36823], abs=1e-5)


def test_it_is_torchs_adam_with_the_correction_for_the_start_undone():
    """torch steps by lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), that is, by lr_t m / (sqrt(v) + eps_t)
    with lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t) and eps_t = eps sqrt(1 - beta2^t): with rates and eps that undo
    these, and v from tau^2 as here, both are one. 20 rounds."""
    lr, beta1, beta2, tau = 0.05, 0.9, 0.99, 1e-2
    generator = torch.Generator().manual_seed(3)
    w = torch.nn.Parameter(torch.zeros(5))
    optimiser = torch.optim.Adam([w], lr=lr, betas=(beta1, beta2))
    piece = adam(lr, beta1, beta2, tau)
    state, params = piece.init({"w": torch.zeros(5)}), torch.zeros(5)
    for t in range(1, 21):
        u = torch.randn(5, generator=generator)
        step, state = piece.update({"w": u}, state, server_context([u.tolist()]))
        params = params + step["w"]
        undone = (1 - beta2**t) ** 0.5
        optimiser.param_groups[0].update(lr=lr * (1 - beta1**t) / undone, eps=tau / undone)
        w.grad = -u
        if t == 1:
            optimiser.state[w] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros(5),
                                  "exp_avg_sq": torch.full((5,), tau**2)}
        optimiser.step()
        torch.testing.assert_close(params, w.detach(), rtol=1e-4, atol=1e-6)


def test_numbers_out_of_range_are_refused(refused):
    with refused("adam: tau must be positive, got 0.0"):
        adam(tau=0.0)
