"""Whom adversities strike, and what they do to them: by hand, by counting, and what is refused."""

import math
from dataclasses import replace

import pytest
import torch

from askew.core import rng
from askew.core.adversity import Who
from askew.core.by_hand import adversity_context
from askew.pieces.adversity import drop_out, flip_labels, flip_sign, send_nan, send_scaled, straggle

ROUNDS = 200


def struck(adversity, clients=50, **rest):
    """[rounds, clients]."""
    return torch.stack([adversity.struck(adversity_context(clients, round=t, **rest)) for t in range(ROUNDS)])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("make", [drop_out, send_nan, send_scaled, flip_sign])
def test_a_share_is_a_chance_in_each_round(make, share):
    """Of 10,000 draws, of each client's and of each round's, as many as it says, within five standard deviations."""
    found = struck(make(share=share)).double()
    of_clients, of_rounds = ((v, ROUNDS) for v in found.mean(dim=0)), ((v, 50) for v in found.mean(dim=1))
    for mean, draws in ((found.mean(), found.numel()), *of_clients, *of_rounds):
        assert abs(float(mean) - share) <= 5 * math.sqrt(share * (1 - share) / draws) + 1e-9


def test_a_larger_share_strikes_the_same_and_more():
    """So that runs with different shares can be compared."""
    few, many = struck(drop_out(0.2)), struck(drop_out(0.5))
    assert bool((few <= many).all())
    assert int(many.sum()) > int(few.sum())


def test_whether_a_client_is_struck_hangs_on_nobody_else():
    whole = adversity_context(50)
    some = torch.tensor([3, 17, 40])
    part = replace(whole, clients=some, examples=whole.examples[some])
    for adversity in (drop_out(0.5), send_nan(0.5), send_nan(0.5, lasting=True), straggle(deadline=0.01),
                      flip_labels(of_clients=0.5)):
        assert torch.equal(adversity.struck(part), adversity.struck(whole)[some])


@pytest.mark.parametrize(("share", "clients", "count"), [
    (0.05, 100, 5), (0.2, 10, 2), (0.25, 10, 3), (0.24, 10, 2), (0.01, 10, 1), (0.0, 10, 0), (1.0, 10, 10),
    (0.5, 1, 1)])
def test_what_lasts_strikes_so_many_and_always_the_same(share, clients, count):
    found = struck(send_nan(share, lasting=True), clients)
    assert found.sum(dim=1).tolist() == [count] * ROUNDS
    assert bool((found == found[0]).all())


def test_seeds_differ():
    first, second = (send_nan(0.2, lasting=True).struck(adversity_context(100, seed=seed)) for seed in (0, 1))
    assert not torch.equal(first, second)


def test_clients_and_groups_by_hand():
    ctx = adversity_context(4, groups=[0, 1, 1, 2])
    assert drop_out(0.0, groups={1: 1.0}).struck(ctx).tolist() == [False, True, True, False]
    assert drop_out(1.0, groups={1: 0.0}).struck(ctx).tolist() == [True, False, False, True]
    assert send_nan(clients=[1, 3]).struck(adversity_context(4)).tolist() == [False, True, False, True]
    assert int(send_nan(0.5, clients=[1, 3], lasting=True).struck(adversity_context(4)).sum()) == 1
    assert not struck(send_nan(0.5, clients=[1, 3]), 4)[:, [0, 2]].any()
    assert 0.3 < float(struck(send_nan(0.5, clients=[1, 3]), 4)[:, [1, 3]].double().mean()) < 0.7


def test_speeds_are_log_normal_and_stay():
    """A median of `speed`, and a logarithm of which `spread` is the standard deviation; the same in every round."""
    adversity, times = straggle(speed=50.0, spread=0.8), []
    rounds = [adversity_context(2000, examples=[100] * 2000, round=number) for number in range(3)]
    for client in range(2000):
        ctx = rounds[client % 3]
        one = replace(ctx, clients=ctx.clients[[client]], examples=ctx.examples[[client]])
        times.append(adversity.measure(one, torch.tensor([False]))["simulated_seconds"])
    speeds = torch.log(100 / torch.tensor(times))
    assert float(speeds.mean()) == pytest.approx(math.log(50), abs=0.06)
    assert float(speeds.std()) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(("deadline", "late", "seconds"), [
    (math.inf, [], 4.0), (4.0, [], 4.0), (3.9, [2], 3.9), (0.5, [0, 1, 2], 0.5)])
def test_a_deadline_by_hand(deadline, late, seconds):
    """Two epochs of 50, 100 and 200 examples at 100 in a second: 1, 2 and 4 s."""
    ctx = adversity_context(3, examples=[50, 100, 200], epochs=2)
    adversity = straggle(deadline, spread=0.0)
    assert adversity.struck(ctx).nonzero().flatten().tolist() == late
    assert adversity.measure(ctx, torch.zeros(3, dtype=torch.bool))["simulated_seconds"] == seconds
    assert adversity.measure(ctx, torch.ones(3, dtype=torch.bool))["simulated_seconds"] == 0.0


def test_what_is_sent_by_hand():
    message = {"update": {"w": torch.tensor([[1.0, -2.0]])}, "buffers": {"seen": torch.tensor([7])},
               "control": {"w": torch.tensor([[3.0]])}}
    assert flip_sign().spoil(message)["update"]["w"].tolist() == [[-1.0, 2.0]]
    scaled = send_scaled(1e3).spoil(message)
    assert scaled["update"]["w"].tolist() == [[1e3, -2e3]]
    assert scaled["control"] is message["control"]
    broken = send_nan().spoil(message)
    assert bool(broken["update"]["w"].isnan().all())
    assert bool(broken["control"]["w"].isnan().all())
    assert broken["buffers"]["seen"].tolist() == [7]
    assert message["update"]["w"].tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_wrong_labels_are_spread_evenly_over_the_other_classes(share, classes):
    labels, keys = torch.arange(30_000) % classes, rng.fold(rng.key(0, "labels"), torch.arange(30_000))
    found = flip_labels(share).relabel(labels, keys, classes)
    assert 0 <= int(found.min()) <= int(found.max()) < classes
    assert float((found != labels).double().mean()) == pytest.approx(share, abs=0.01)
    if share:
        shift = (found - labels)[found != labels] % classes
        counts = torch.bincount(shift, minlength=classes)[1:].double()
        assert bool(((counts / counts.mean() - 1).abs() < 5 / counts.mean().sqrt()).all())


@pytest.mark.parametrize(("make", "message"), [
    (lambda: drop_out(share=[0.5, 0.5]),
     "drop_out: share has 2 numbers for 3 clients; give one number, or one for each"),
    (lambda: drop_out(share=[0.5, 1.5, 0.0]), r"drop_out: a share must be a number in \[0, 1\], got 1.5"),
    (lambda: drop_out(groups={0: math.nan}), r"drop_out: groups must be a mapping of int to float .*nan"),
    (lambda: drop_out(groups={7: 0.5}), "drop_out: there is no group 7; the population has 0, 1$"),
    (lambda: drop_out(groups=0.5), r"drop_out: groups must be a mapping of int to float .*not 0.5"),
    (lambda: send_nan(clients=[3]), "send_nan: there is no client 3; the federation has 0 to 2"),
    (lambda: send_nan(clients=[]),
     "send_nan: clients is empty, so that nobody can be struck; name some, or leave it out"),
    (lambda: drop_out(share=1.5), r"drop_out: share must be in \[0, 1\], got 1.5"),
    (lambda: drop_out(share="often"), "drop_out: share must be float or a list of float, not 'often'"),
    (lambda: straggle(deadline=0.0), "straggle: deadline must be positive, got 0.0"),
    (lambda: flip_labels(share=-0.1), r"flip_labels: share must be in \[0, 1\], got -0.1"),
])
def test_what_makes_no_sense_is_refused(make, message, refused):
    with refused(message):
        make().check(adversity_context(3, groups=[0, 1, 1]))


def test_groups_need_archetypes(refused):
    with refused("drop_out: there is no group 1; the population has none; use one with archetypes"):
        Who(groups={1: 0.5}).check("drop_out", adversity_context(3))
