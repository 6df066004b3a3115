"""Steps that can be taken in the weights' own memory, and those that cannot."""

import pytest

from askew.core import registry
from askew.core.client_piece import ClientChain, Optimiser
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
    got = coefficients(chain(*calls), 2, (("w", (3, 2)), ("b", (3,)), ("one", (1,))))
    assert got == (wanted if wanted is None else dict.fromkeys(("w", "b", "one"), wanted))


def test_a_rate_by_name_is_found_and_one_by_shape_is_left_alone():
    by_name = Optimiser(lambda u, state, ctx: ({n: -g if n == "b" else -0.5 * g for n, g in u.items()}, state))
    by_shape = Optimiser(lambda u, state, ctx: ({n: -g if g.ndim == 1 else -0.5 * g for n, g in u.items()}, state))
    shapes = (("w", (3, 2)), ("b", (3,)))
    assert coefficients(ClientChain([by_name]), 0, shapes) == {"w": (-0.5, 0.0), "b": (-1.0, 0.0)}
    assert coefficients(ClientChain([by_shape]), 0, shapes) is None
