"""Shares of coordinates by hand, and what theory says of them on the digits."""

import pytest

import askew
from askew.core.errors import AskewError
from askew.core.server_piece import ServerContext
from askew.pieces.probe import sign_cancellation
from askew.pieces.server import mask_by_sign_agreement, mean

THREE = [(1, 1, -1, 0), (2, -1, -3, 0), (1, 5, -1, 0.5)]  # signs add up to (3, 1, -3, 1)


def read(pencil, probe, updates):
    values, _ = probe.read(pencil.ctx, pencil.round(updates), probe.init(pencil.ctx), None)
    return values


def test_two_clients_by_hand(pencil):
    """Signs add up to (2, 0, -2, 0). In conv, 1 and -2 cancel but their mean is not 0; in fc nobody moves f1."""
    assert read(pencil, sign_cancellation(), [(1, 1, -1, 0), (2, -2, -3, 0)]) == {
        "no_sign_agreement": 0.5, "signs_cancel": 0.5, "unmoved": 0.25,
        "no_sign_agreement conv": 0.5, "signs_cancel conv": 0.5, "unmoved conv": 0.0,
        "no_sign_agreement fc": 0.5, "signs_cancel fc": 0.5, "unmoved fc": 0.5}


@pytest.mark.parametrize(("theta", "share"), [(None, 0.5), (3, 0.5), (2, 0.5), (1, 0.0), (1.5, 0.5)])
def test_three_clients_by_hand(pencil, theta, share):
    values = read(pencil, sign_cancellation(theta), THREE)
    assert values["no_sign_agreement"] == share
    assert values["signs_cancel"] == 0


@pytest.mark.parametrize("theta", [1.0, 2.0, 3.0])
def test_it_counts_what_the_remedy_would_hold_still(pencil, theta):
    updates = [(1, 1, -1, 2), (2, -1, -3, -1), (1, 5, -1, -4)]
    round = pencil.round(updates)
    ctx = ServerContext(round.before.params, 0, 2, None, round.cohort, None)
    u, _ = mean().update({}, (), ctx)
    masked, _ = mask_by_sign_agreement(theta).update(u, (), ctx)
    held = sum((v == 0).sum().item() for v in masked.values()) / 4
    assert read(pencil, sign_cancellation(theta), updates)["no_sign_agreement"] == held


def test_a_client_alone_agrees_with_itself(pencil):
    values = read(pencil, sign_cancellation(), [(1, -1, 2, 0)])
    assert values["no_sign_agreement"] == values["signs_cancel"] == values["unmoved"] == 0.25


def test_layers(pencil):
    assert read(pencil, sign_cancellation(per="layer"), THREE)["no_sign_agreement fc"] == 0.5


@pytest.mark.parametrize("theta", [0, -1])
def test_theta_must_be_positive(theta):
    with pytest.raises(AskewError, match="theta must be positive"):
        sign_cancellation(theta)


def test_theta_above_the_federation_is_refused_before_anything_is_written(tmp_path):
    recipe = askew.Recipe(population="iid(clients=4)", rounds=1, probes=["sign_cancellation(theta=5)"])
    with pytest.raises(AskewError, match="theta = 5 is above the 4 clients of the federation"):
        askew.run(recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_skewed_clients_agree_less():
    shares = {}
    for population in ("iid(clients=4)", "classes_per_client(clients=4, classes=3)"):
        recipe = askew.Recipe(population=population, rounds=3, probes=["sign_cancellation()"])
        records = askew.run(recipe).records
        shares[population] = [record["no_sign_agreement"] for record in records]
        for record in records:
            assert 0 <= record["unmoved"] <= record["signs_cancel"] <= record["no_sign_agreement"] <= 1
    iid, skewed = shares.values()
    assert all(1.2 * a < b for a, b in zip(iid, skewed, strict=True))
