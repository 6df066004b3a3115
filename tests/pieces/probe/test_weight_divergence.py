"""The twin's path by hand, and what theory says of the divergence on the digits."""

from dataclasses import replace

import pytest
import torch

import askew
from askew.pieces.methods import centralised
from askew.pieces.probe import weight_divergence


def test_two_rounds_by_hand(pencil):
    """The twin adds 1 to each weight in a round: (0, 0, 0, 0), then ones, then twos.

    Round 1: w = (4, 5, 1, 1): conv |(3, 4)| / |(1, 1)|, fc 0, all 5 / 2.
    Round 2: w = (2, 2, 2, 8): conv 0, fc 6 / |(2, 2)|, all 6 / 4.
    """
    probe = weight_divergence()
    state = probe.init(pencil.ctx)
    values, state = probe.read(pencil.ctx, pencil.round([(1, 1, 1, 1)] * 2, after=(4, 5, 1, 1)), state, None)
    assert list(values) == ["weight_divergence", "weight_divergence conv", "weight_divergence fc"]
    assert list(values.values()) == pytest.approx([2.5, 5 / 2**0.5, 0])
    round = pencil.round([(1, 1, 1, 1)] * 3, before=(4, 5, 1, 1), after=(2, 2, 2, 8), number=2)
    values, state = probe.read(pencil.ctx, round, state, None)
    assert list(values.values()) == pytest.approx([1.5, 0, 6 / 8**0.5])
    # Clients 0 and 1, then all three; batches K times 5; rates decay by the rounds completed before.
    assert pencil.trained_on == [([0, 1, 2], 10, 0), ([0, 1, 2, 3], 15, 1)]


def test_the_twin_keeps_its_own_buffers(pencil):
    probe, state = weight_divergence(), None
    for number, wanted in ((1, 6.0), (2, 7.0)):
        round = pencil.round([(1, 1, 1, 1)], number=number)
        round = replace(round, before=replace(round.before, buffers={"seen": torch.tensor(5.0)}))
        _, state = probe.read(pencil.ctx, round, state, None)
        assert state["buffers"]["seen"].item() == wanted


def test_tensor_by_tensor_and_group_by_group(pencil):
    for per, names in (("tensor", ["conv.weight", "fc.weight"]), ("group", ["conv", "fc"])):
        values, _ = weight_divergence(per=per).read(pencil.ctx, pencil.round([(1, 1, 1, 1)]), None, None)
        assert list(values) == ["weight_divergence", *(f"weight_divergence {name}" for name in names)]


def test_none_where_the_twin_has_no_length(pencil):
    round = pencil.round([(1, 1, 1, 1)], before=(-1, -1, 3, 3), after=(1, 1, 1, 1))
    values, _ = weight_divergence().read(pencil.ctx, round, None, None)
    assert values["weight_divergence conv"] is None
    assert values["weight_divergence fc"] == pytest.approx(0.75)  # (1, 1) against (4, 4)


def divergences(population, **changes):
    settings = {"rounds": 3, "probes": ["weight_divergence()"], "model": "small_cnn()", **changes}
    result = askew.run(askew.Recipe(population=population, **settings))
    return [record["weight_divergence"] for record in result.records]


def test_a_federation_of_one_is_its_own_twin():
    """With all examples in each step nothing is left to chance: the order of summation is all that differs."""
    assert max(divergences("pooled()", batch_size=0, epochs=2)) < 1e-5


def test_one_step_a_round_is_centralised_training_however_skewed():
    """The mean of equal clients' gradients is the gradient of the pooled data."""
    skewed = "classes_per_client(clients=10, classes=1, equal_sizes=true)"
    assert max(divergences(skewed, batch_size=0)) < 1e-5
    assert min(divergences(skewed, batch_size=0, epochs=5)) > 1e-3


def test_it_grows_with_skew():
    """zhao2018, figure 2: IID below two classes a client below one, at the paper's rate for MNIST.

    At ten times that rate clients of one class have nothing left to learn after a few steps, and stop drifting.
    """
    iid, two, one = (divergences(population, model="mlp()", client=["sgd(lr=0.01)"]) for population in (
        "iid(clients=10)", "classes_per_client(clients=10, classes=2)", "classes_per_client(clients=10, classes=1)"))
    for a, b, c in zip(iid, two, one, strict=True):
        assert 3 * a < b < c / 1.5


def test_it_is_measured_against_the_centralised_method():
    """Full batches make the twin the run of `centralised`; the rate decays and momentum is at work in both."""
    base = askew.Recipe(population="classes_per_client(clients=5, classes=2)", batch_size=0, epochs=3, rounds=3,
                        client=["sgd(lr=decay(0.2, 0.5), momentum=0.5)"], probes=["weight_divergence()"])
    federation, twin = askew.run(base), askew.run(centralised(base))
    for layer, names in (("", list(twin.model)), (" fc1", ["fc1.weight", "fc1.bias"])):
        apart = torch.cat([(federation.model[name] - twin.model[name]).flatten() for name in names]).norm()
        length = torch.cat([twin.model[name].flatten() for name in names]).norm()
        assert federation.records[-1][f"weight_divergence{layer}"] == pytest.approx((apart / length).item(), rel=1e-4)
