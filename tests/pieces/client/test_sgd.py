"""The clients' optimiser: by hand, and against torch.optim.SGD."""

import pytest
import torch

import askew
from askew.core.client_piece import ClientContext
from askew.core.tensors import ModelState, add
from askew.pieces.client import sgd
from askew.pieces.schedule import decay, drops


def test_the_plain_step_by_hand(client, act):
    """-0.1 * (1, -2)."""
    assert act(sgd(0.1), (1, -2), client(w=(5, 5))) == pytest.approx([-0.1, 0.2])


def test_weight_decay_by_hand(client, act):
    """-0.1 (1 + 0.5 * 2) = -0.2 and -0.1 (-2 + 0.5 * 4) = 0."""
    assert act(sgd(0.1, weight_decay=0.5), (1, -2), client(w=(2, 4))) == pytest.approx([-0.2, 0.0])


def test_momentum_by_hand(client):
    """momentum 0.5, gradients 1, 1, 0: v = 1, 1.5, 0.75; steps -0.1 v."""
    piece, ctx = sgd(0.1, momentum=0.5), client()
    state, steps = piece.begin((), ctx), []
    for g in (1.0, 1.0, 0.0):
        u, state = piece.update({"w": torch.tensor([g])}, state, ctx)
        steps.append(float(u["w"]))
    assert steps == pytest.approx([-0.1, -0.15, -0.075])


def test_nesterov_by_hand(client):
    """momentum 0.5, gradients 1, 1: v = 1, 1.5; steps -0.1 (1 + 0.5) and -0.1 (1 + 0.75)."""
    piece, ctx = sgd(0.1, momentum=0.5, nesterov=True), client()
    state, steps = piece.begin((), ctx), []
    for g in (1.0, 1.0):
        u, state = piece.update({"w": torch.tensor([g])}, state, ctx)
        steps.append(float(u["w"]))
    assert steps == pytest.approx([-0.15, -0.175])


def test_the_rate_decays_by_the_round_not_by_the_step(client, act):
    """lr 0.4, decay 0.5: rates 0.4, 0.2, 0.1 in rounds 1, 2, 3."""
    rates = [act(sgd(decay(0.4, 0.5)), (-1,), client(round=completed))[0] for completed in range(3)]
    assert rates == pytest.approx([0.4, 0.2, 0.1])


def test_the_rate_drops_after_the_named_rounds(client, act):
    """Drops after rounds 2 and 3, by 0.1 each: rounds 1 and 2 have 1, round 3 has 0.1, round 4 has 0.01."""
    piece = sgd(drops(1.0, at=[2, 3]))
    rates = [act(piece, (-1,), client(round=completed))[0] for completed in range(4)]
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.01])
    assert act(sgd(drops(1.0, at=[1], factor=0.5)), (-1,), client(round=1))[0] == 0.5


@pytest.mark.parametrize("settings", [
    {}, {"weight_decay": 0.05}, {"momentum": 0.9}, {"momentum": 0.5, "weight_decay": 0.1},
    {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
])
def test_twenty_steps_equal_torch_optim_sgd(settings):
    generator = torch.Generator().manual_seed(3)
    start = {"a": torch.randn(3, 2, generator=generator), "b": torch.randn(4, generator=generator)}
    theirs = {name: torch.nn.Parameter(v.clone()) for name, v in start.items()}
    optimiser = torch.optim.SGD(theirs.values(), lr=0.3, **settings)
    piece, ours = sgd(0.3, **settings), dict(start)
    state = piece.begin((), ClientContext(ours, start, 0))
    for step in range(20):
        gradients = {name: torch.randn(v.shape, generator=generator) for name, v in start.items()}
        for name, p in theirs.items():
            p.grad = gradients[name].clone()
        optimiser.step()
        u, state = piece.update(gradients, state, ClientContext(ours, start, 0, step))
        ours = add(ours, u)
        for name, p in theirs.items():
            torch.testing.assert_close(ours[name], p.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"lr": -1.0}, "sgd: lr must not be negative, got -1.0"),
    ({"weight_decay": -0.1}, "sgd: weight_decay must not be negative"),
    ({"momentum": 1.0}, r"sgd: momentum must be in \[0, 1\), got 1.0"),
    ({"lr": "decay(0.1, 0.0)"}, r"decay: factor must be in \(0, 1\], got 0.0"),
    ({"nesterov": True}, "sgd: nesterov=True needs a momentum above 0"),
    ({"keep_momentum": True}, "sgd: keep_momentum=True needs a momentum above 0"),
    ({"lr": "fast"}, "sgd: lr must be float or a schedule, not 'fast'"),
])
def test_values_out_of_range_are_refused(arguments, message):
    with pytest.raises(askew.AskewError, match=message):
        sgd(**arguments)


def test_momentum_that_is_kept_goes_on_in_the_clients_next_round(client):
    """momentum 0.5, one step per round, gradients 1, 1, 0: v = 1, 1.5, 0.75, as without a break; forgotten: 1, 1, 0."""
    steps = {}
    for keeps in (True, False):
        piece, ctx = sgd(0.1, momentum=0.5, keep_momentum=keeps), client()
        kept, steps[keeps] = piece.keep(ModelState(ctx.start)), []
        for g in (1.0, 1.0, 0.0):
            u, state = piece.update({"w": torch.tensor([g])}, piece.begin(kept, ctx), ctx)
            message, kept = piece.end({"update": u}, state, kept, ctx)
            assert message == {"update": u}
            steps[keeps].append(float(u["w"]))
    assert steps[True] == pytest.approx([-0.1, -0.15, -0.075])
    assert steps[False] == pytest.approx([-0.1, -0.1, 0.0])


def test_whole_runs_with_and_without_kept_momentum():
    """The first round is the same, since nobody remembers anything; the second is not."""
    base = askew.Recipe(rounds=2)
    kept, forgotten = (askew.run(base.replace(client=f"sgd(lr=0.05, momentum=0.9, keep_momentum={keeps})"))
                       for keeps in (True, False))
    assert kept.records[0] == forgotten.records[0]
    assert kept.records[1]["train_loss"] != forgotten.records[1]["train_loss"]
