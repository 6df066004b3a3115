"""Rates by hand, the same for rounds that are numbers and rounds that are tensors."""

import pytest
import torch

from askew.core import registry
from askew.core.arguments import hints_of, options
from askew.core.by_hand import client_message, client_update, server_context
from askew.core.schedule import Schedule, value_at
from askew.pieces.schedule import cosine, decay, drops, linear_warm_up

BY_HAND = {
    "decay": (decay(0.4, 0.5), [0.4, 0.2, 0.1, 0.05, 0.025]),
    "drops": (drops(1.0, at=[2, 3]), [1.0, 1.0, 0.1, 0.01, 0.01]),
    "drops of a decay": (drops(decay(0.4, 0.5), at=[1], factor=0.1), [0.4, 0.02, 0.01, 0.005, 0.0025]),
    "cosine": (cosine(0.4, rounds=4), [0.4, 0.34142136, 0.2, 0.05857864, 0.0]),
    "cosine to an end": (cosine(0.4, rounds=2, end=0.1), [0.4, 0.25, 0.1, 0.1, 0.1]),
    "warm-up": (linear_warm_up(0.4, rounds=4), [0.1, 0.2, 0.3, 0.4, 0.4]),
    "warm-up of a decay": (linear_warm_up(decay(0.4, 0.5), rounds=2), [0.2, 0.2, 0.1, 0.05, 0.025]),
}


@pytest.mark.parametrize(("schedule", "rates"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(schedule, rates):
    got = [schedule(t) for t in range(5)]
    assert all(isinstance(rate, float) for rate in got)
    assert got == pytest.approx(rates)
    assert [float(schedule(torch.tensor(t))) for t in range(5)] == pytest.approx(rates, abs=1e-7)


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in BY_HAND.values()], ids=BY_HAND)
def test_an_engine_may_trace_it(schedule):
    """vmap fails where a schedule asks for the value of a round."""
    rounds = torch.arange(5)
    torch.testing.assert_close(torch.func.vmap(schedule.at)(rounds),
                               torch.tensor([float(schedule(t)) for t in range(5)]))


def test_a_plain_number_is_a_rate_too():
    assert value_at(0.1, 7) == 0.1
    assert value_at(Schedule(lambda round: 2.0 * round), 7) == 14.0


WITH_RATES = [(kind, name) for kind in ("client", "server", "method") for name in registry.names(kind)
              if "lr" in hints_of(made := registry.find(kind, name)) and made.__module__.startswith("askew.")]


def test_whatever_has_a_rate_takes_a_schedule():
    # sgd, adam, correct_drift; scale, adam, yogi, adagrad; fedadam, fedyogi, fedadagrad, scaffold
    assert len(WITH_RATES) >= 11
    assert [at for at in WITH_RATES if Schedule not in options(hints_of(registry.find(*at))["lr"])] == []


@pytest.mark.parametrize(("kind", "name"), [at for at in WITH_RATES if at[0] != "method"])
def test_after_two_rounds_a_rate_of_04_that_halves_is_01(kind, name):
    halved, plain, first = (in_round_three(kind, f"{name}(lr={lr})") for lr in ("decay(0.4, 0.5)", 0.1, 0.4))
    torch.testing.assert_close(halved, plain)
    assert not torch.equal(halved, first)


def in_round_three(kind, call):
    """What a piece makes of a few numbers after two rounds."""
    made = registry.build(kind, call)
    if kind == "server":
        ctx = server_context([(1.0, 2.0)], round=2)
        return made.update(ctx.cohort.mean, made.init(ctx.params), ctx)[0]["w"]
    if made.wants:  # the rate is in what the client sends
        return client_message(made, [2.0], round=2, shared={"control": {"w": torch.tensor([0.5])}})["control"]["w"]
    return client_update(made, [2.0, -1.0], w=[1.0, 1.0], round=2)
