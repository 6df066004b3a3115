"""Clipping by hand, and against torch."""

import pytest
import torch

import askew
from askew.core.client_piece import ClientContext
from askew.pieces.client import clip_gradient


def test_a_long_gradient_by_hand(client, act):
    """(6, 8) has norm 10: half of it is left."""
    assert act(clip_gradient(5.0), (6, 8), client(w=(0, 0))) == pytest.approx([3, 4], rel=1e-6)


def test_a_short_gradient_stays_as_it_is(client, act):
    for piece in (clip_gradient(10.5), clip_gradient(float("inf"))):
        assert act(piece, (6, 8), client(w=(0, 0))) == [6, 8]


@pytest.mark.parametrize("length", [0.5, 3.0, 100.0])
def test_all_weights_together_as_torch_does_it(length):
    generator = torch.Generator().manual_seed(0)
    gradients = {"a": torch.randn(3, 4, generator=generator), "b": torch.randn(5, generator=generator)}
    theirs = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients.values()]
    for p, g in zip(theirs, gradients.values(), strict=True):
        p.grad = g.clone()
    torch.nn.utils.clip_grad_norm_(theirs, length)
    ours, _ = clip_gradient(length).update(gradients, (), ClientContext(gradients, gradients, 0))
    for p, g in zip(theirs, ours.values(), strict=True):
        torch.testing.assert_close(g, p.grad)


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan")])
def test_values_out_of_range_are_refused(length):
    with pytest.raises(askew.AskewError, match="clip_gradient: length must be positive"):
        clip_gradient(length)
