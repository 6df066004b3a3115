"""Sign agreement (ozdayi2020, eq. (4)) in both readings."""

import pytest
import torch

import askew
from askew.core.client_piece import Plan
from askew.core.server_piece import ServerChain
from askew.pieces.server import mask_by_sign_agreement, mean, train_on_server
from askew.pieces.statistic import SignSum

# Sign sums of these three clients: (3, 1, -1, -3, 0); means: (2, 1/3, -1/3, -2, 0).
UPDATES = [(1, 2, -2, -1, 0), (2, -2, 2, -2, 5), (3, 1, -1, -3, -5)]


@pytest.mark.parametrize(("theta", "literal", "kept"), [
    (0.0, False, [0, 1, 2, 3, 4]), (1.0, False, [0, 1, 2, 3]), (2.0, False, [0, 3]), (3.0, False, [0, 3]),
    (0.0, True, [0, 1, 4]), (1.0, True, [0, 1]), (3.0, True, [0]),
])
def test_three_clients_by_hand(server, apply, theta, literal, kept):
    means = [2.0, 1 / 3, -1 / 3, -2.0, 0.0]
    got = apply(mask_by_sign_agreement(theta, literal), server(UPDATES))
    assert got == pytest.approx([v if i in kept else 0.0 for i, v in enumerate(means)])


def test_votes_are_not_weighted_but_the_step_is(server, apply):
    """Signs (+, +, -) sum to 1, however large the third client and its step are; the mean is (1 + 1 - 8 * 30) / 10."""
    ctx = server([(1,), (1,), (-30,)], weights=[1, 1, 8])
    assert apply(mask_by_sign_agreement(2.0), ctx) == [0.0]
    assert apply(mask_by_sign_agreement(1.0), ctx) == pytest.approx([-23.8])
    assert apply(mask_by_sign_agreement(1.0, literal=True), ctx) == pytest.approx([-23.8])  # the votes' sum is +1


def test_the_cohort_is_told_to_gather_signs():
    assert ServerChain([mean(), mask_by_sign_agreement(1.0), mask_by_sign_agreement(2.0)]).needs == {SignSum()}
    assert ServerChain([mean()]).needs == frozenset()


def test_combinations_that_make_no_sense_are_refused():
    with pytest.raises(askew.AskewError, match=r"theta = 4\.0 is above the 3 clients of a round.* at most 3"):
        mask_by_sign_agreement(4.0).check(Plan(cohort_size=3))
    mask_by_sign_agreement(3.0).check(Plan(cohort_size=3))
    with pytest.raises(askew.AskewError, match="put mask_by_sign_agreement before it"):
        ServerChain([mean(), train_on_server(), mask_by_sign_agreement(1.0)]).check(
            Plan(cohort_size=3, server_examples=10))
    with pytest.raises(askew.AskewError, match="theta must not be negative"):
        mask_by_sign_agreement(-1.0)


def test_a_tensor_theta_is_a_hyper_parameter_with_a_batch_axis(server):
    """A sweep over theta in one computation equals one by one."""
    ctx = server(UPDATES)
    thetas = torch.tensor([0.0, 1.0, 3.0])

    def masked(theta):
        return mask_by_sign_agreement(theta).update(ctx.cohort.mean, (), ctx)[0]["w"]

    for theta, mine in zip(thetas.tolist(), torch.func.vmap(masked)(thetas), strict=True):
        assert torch.equal(mine, masked(theta))
