"""A rate that falls on a plateau: torch's own rule, what the clients make of it, and runs that follow it."""

from dataclasses import replace

import pytest
import torch

import askew
from askew.core.by_hand import server_context
from askew.core.cohort import Cohort
from askew.core.statistic import Senders
from askew.pieces.server import plateau
from askew.pieces.statistic import MeanLoss
from askew.runs.sweep import sweep

ONE = {"w": torch.ones(1)}
DIGITS = askew.Recipe(population="iid(clients=4) + subset(0.5)", rounds=6, batch_size=32, model="mlp(hidden=[8])",
                      evaluate_every=6)
# The loss must fall to a tenth to count as better: a fall of the rate in rounds 2, 4 and 6.
IMPATIENT = "plateau(patience=1, factor=0.5, threshold=0.9)"


def after(losses):
    """The context of a round with these clients' losses."""
    cohort, ones = Cohort(ONE, [MeanLoss()]), torch.ones(len(losses))
    senders = Senders(range(len(losses)), ones, ones, ones, torch.tensor(losses))
    cohort.add({"update": {"w": torch.ones(len(losses), 1)}}, senders, ones)
    return replace(server_context([(1,)]), cohort=cohort)


def factors(piece, losses):
    """After each round, as the clients hear of it; the mean loss of two clients is as given."""
    state, heard = piece.init(ONE), []
    for loss in losses:
        _, state = piece.update(ONE, state, after([loss - 0.25, loss + 0.25]))
        heard.append(float(piece.broadcast(state)["factor"]))
    return heard


def test_by_hand():
    """Patience 1: 3 and 2 are better, 2.5 is borne, with 2 the rate falls; 1 is better, 1 is borne, 1 is not."""
    heard = factors(plateau(patience=1, factor=0.5), [3.0, 2.0, 2.5, 2.0, 1.0, 1.0, 1.0])
    assert heard == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("seed", range(20))
def test_torchs_own_rule(seed):
    """Random losses that fall, stall and rise, with repeats and differences around the threshold."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.tensor([-0.5, -2e-4, -5e-5, 0.0, 0.1])[torch.randint(5, (200,), generator=generator)]
    losses = (4 * torch.exp(steps.cumsum(0) / 4)).tolist()
    patience, factor, threshold = seed % 6, (0.1, 0.5, 0.9)[seed % 3], (1e-4, 0.0, 0.05)[seed // 3 % 3]
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "min", factor, patience, threshold, eps=0)
    piece = plateau(patience, factor, threshold)
    state, heard, rates = piece.init(ONE), [], []
    for loss in losses:
        _, state = piece.update(ONE, state, after([loss]))
        theirs.step(float(torch.tensor(loss)))  # a client's loss is in float32
        heard.append(float(state["factor"]))
        rates.append(optimiser.param_groups[0]["lr"])
    assert heard == pytest.approx(rates, rel=1e-5)
    assert heard[-1] < 1


def test_a_loss_that_is_not_a_number_is_not_better():
    assert factors(plateau(patience=0, factor=0.5), [1.0, float("nan"), 0.5]) == [1, 0.5, 0.5]


def test_the_servers_own_step():
    """The update has the factor with which the round began; without server=True it stays as it is."""
    for server, expected in ((True, [1, 1, 0.5]), (False, [1, 1, 1])):
        piece, seen = plateau(patience=0, factor=0.5, server=server), []
        state = piece.init(ONE)
        for loss in (1.0, 1.0, 0.5):
            u, state = piece.update(ONE, state, after([loss]))
            seen.append(float(u["w"]))
        assert seen == expected


def at_rates(rates, **changes):
    """A run whose rounds have rates of their own: what a plateau of these factors must come to."""
    drops = "0.1"
    for number in range(1, 6):  # a schedule that is any list of numbers
        drops = f"drops({drops}, at=[{number}], factor={rates[number] / rates[number - 1]})"
    step = [f"sgd(lr={drops}, momentum=0.5, keep_momentum=True)"]
    return askew.run(DIGITS.replace(client=step, **changes), engine="sequential")


def losses_of(result):
    return [record["train_loss"] for record in result.records]


@pytest.mark.parametrize("population", ["iid(clients=4) + subset(0.5)", "pooled() + subset(0.5)"])
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_run_on_a_plateau_is_one_at_the_lower_rates(population, engine):
    """Clients with momentum that they keep, and centralised training: rates 0.1, 0.1, 0.1, 0.05, 0.05, 0.025."""
    recipe = DIGITS.replace(client=["sgd(lr=0.1, momentum=0.5, keep_momentum=True)", "scale_by_server()"],
                            server=["mean()", IMPATIENT], population=population)
    got = askew.run(recipe, engine=engine)
    expected = at_rates([1, 1, 1, 0.5, 0.5, 0.25], population=population)
    assert losses_of(got) == pytest.approx(losses_of(expected), rel=1e-4)
    assert got.accuracy == pytest.approx(expected.accuracy, abs=0.01)


def test_a_sweep_watches_each_configuration_by_itself():
    """Five in one computation: rates of which some stall, and factors and thresholds that differ."""
    numbers = [(0.1, 0.5, 0.9), (1e-6, 0.1, 1e-4), (0.3, 0.5, 0.02), (0.1, 0.2, 0.0), (0.1, 0.3, 0.5)]
    recipes = [DIGITS.replace(client=[f"sgd(lr={lr})", "scale_by_server()"], seed=seed,
                              server=["mean()", f"plateau(patience=0, factor={factor}, threshold={threshold})"])
               for seed, (lr, factor, threshold) in enumerate(numbers)]
    together = sweep(recipes, engine="vectorised")
    assert {result.together for result in together} == {5}
    for recipe, result in zip(recipes, together, strict=True):
        alone = askew.run(recipe, engine="sequential")
        factor, own = (float(one.simulation.models[0].chain[1]["factor"]) for one in (result, alone))
        assert factor == pytest.approx(own, rel=1e-5)
        assert losses_of(result) == pytest.approx(losses_of(alone), rel=1e-4)


def test_what_makes_no_sense_is_refused(refused):
    follows = DIGITS.replace(client=["sgd(lr=0.1)", "scale_by_server()"])
    with refused("plateau: no client follows it; add scale_by_server"):
        askew.run(DIGITS.replace(server=["mean()", "plateau()"]))
    with refused("scale_by_server wants 'factor' from the server"):
        askew.run(follows)
    with refused("server: two pieces send 'factor'"):
        askew.run(follows.replace(server=["mean()", "plateau()", "plateau(patience=3)"]))
    for bad, why in (("patience=-1", "patience must not be negative"), ("factor=1.0", "factor must be in"),
                     ("threshold=1.5", "threshold must be in")):
        with refused(why):
            DIGITS.replace(server=["mean()", f"plateau({bad})"])
    assert askew.run(DIGITS.replace(server=["mean()", "plateau(server=True)"], rounds=1)).records
