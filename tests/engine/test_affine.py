"""Steps that can be taken in the weights' own memory, and those that cannot."""

import pytest

from askew.core import registry
from askew.core.client_piece import ClientChain
from askew.engine.affine import coefficients


def chain(*calls):
    return ClientChain([registry.build("client", call) for call in calls])


@pytest.mark.parametrize(("calls", "wanted"), [
    (["sgd(lr=0.5)"], (-0.5, 0.0)),
    (["sgd(lr=0.5, weight_decay=0.25)"], (-0.5, -0.125)),
    (["sgd(lr=decay(0.5, 0.5))"], (-0.125, 0.0)),  # in the third round
    (["sgd(lr=0.5)", "quantize(bits=8)"], (-0.5, 0.0)),  # what happens at the end is another matter
    (["sgd(lr=0.5, momentum=0.9)"], None),
    (["adam(lr=0.5)"], None),
    (["add_proximal(mu=0.1)", "sgd(lr=0.5)"], None),
    (["clip_gradient(length=1.0)", "sgd(lr=0.5)"], None),
    (["add_gradient_noise(std=0.1)", "sgd(lr=0.5)"], None),
    (["sgd(lr=0.5)", "project_to_ball(radius=1.0)"], None),
    (["correct_drift()", "sgd(lr=0.5)"], None),
    (["add_dynamic_regulariser(alpha=0.1)", "sgd(lr=0.5)"], None)])
def test_what_a_chain_comes_to(calls, wanted):
    got = coefficients(chain(*calls), 2)
    assert got == (wanted if wanted is None else pytest.approx(wanted, abs=0))
