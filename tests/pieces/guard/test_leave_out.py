"""The guard on lengths: by hand, against numpy, and where there is little to compare with."""

import math

import numpy as np
import pytest
import torch

from askew.pieces.guard import leave_out


def positions(guard, lengths):
    """Reason -> positions."""
    found = guard.refuses(torch.tensor(lengths, dtype=torch.float64))
    return {reason: mask.nonzero().flatten().tolist() for reason, mask in found.items()}


@pytest.mark.parametrize(("times", "lengths", "not_finite", "too_long"), [
    (10.0, [1.0, 2.0, 3.0, 100.0, math.nan], [4], [3]),  # median 2.5: 25 is the bound
    (10.0, [1.0, 2.0, 3.0, 25.0], [], []),  # at the bound
    (10.0, [1.0, 1.0, 1.0, 9e11], [], [3]),
    (10.0, [math.inf, 1.0, 1e30, 2.0], [0, 2], []),  # 1e30: its square is beyond float32
    (math.inf, [1.0, 1.0, 9e11, math.nan], [3], []),
    (1.0, [1.0, 2.0, 3.0], [], [2]),
    (10.0, [math.nan, math.nan], [0, 1], []),
    (10.0, [0.0, 0.0, 5.0], [], []),  # most send nothing: nothing to compare with
    (10.0, [1.0, 1e9], [], []),  # two clients: nobody knows which of them is wrong
    (10.0, [7.0], [], []),
    (10.0, [], [], []),
])
def test_by_hand(times, lengths, not_finite, too_long):
    assert positions(leave_out(times), lengths) == {"not_finite": not_finite, "too_long": too_long}


@pytest.mark.parametrize("clients", [3, 4, 9, 50])
def test_the_median_is_numpys(clients):
    lengths = torch.rand(clients, generator=torch.Generator().manual_seed(clients)).tolist()
    bound = 1.3 * np.median(lengths)
    assert positions(leave_out(1.3), lengths)["too_long"] == [i for i, v in enumerate(lengths) if v > bound]


def test_times_below_one_would_leave_out_the_usual(refused):
    with refused("leave_out: times must be at least 1, got 0.5"):
        leave_out(0.5)
