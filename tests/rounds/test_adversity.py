"""Rounds in which something goes wrong: who is left out might as well not have been asked, whatever the method."""

from __future__ import annotations

import pytest
import torch
from conform.forms import FORMS, LONG, apart
from conform.pieces import PIECES, RECIPES, UNEQUAL, normed

import askew
from askew.core import registry
from askew.core.compat import tree_leaves
from askew.engine.build import build_task
from askew.engine.protocol import Chunk, Job
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.rounds.guarded import _lengths
from askew.rounds.mishaps import absent
from askew.rounds.simulation import Simulation
from askew.runs.sweep import sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

SMALL = UNEQUAL.replace(population="power_law(clients=6, exponent=0.5, min_examples=20) + subset(0.3)", rounds=2,
                        fraction=1.0)
METHODS = {call: registry.build("method", call, base=SMALL) for calls in PIECES["method"].values() for call in calls
           if not call.startswith("centralised")}
STRANGERS = ["median", "control variates", "more in the message", "what the server sends besides",
             "kept momentum of several models", "a layer that stays at home", "batchnorm and dropout"]


def of_a_stranger(name):
    recipe, model = RECIPES[name]
    population = SMALL.population + ("validation(0.2)" if "models" in name else "hold_out(0.1)")
    return recipe.replace(population=population, rounds=2, fraction=1.0), model


RECIPES_TRIED = {**{name: (recipe, None) for name, recipe in METHODS.items()},
                 **{name: of_a_stranger(name) for name in STRANGERS}}
GUARD = ["leave_out(times=100)"]
# Client 3 sends nan, 4 far too much, 5 nothing, in every round.
TROUBLE = ["send_nan(clients=[3])", "send_scaled(1e9, clients=[4])", "drop_out(share=[0.0, 0.0, 0.0, 0.0, 0.0, 1.0])"]
LEFT_OUT = {"dropped_out": [5], "not_finite": [3], "too_long": [4]}
# All that may go wrong at once: rounds of 6, of which on average half are left out.
EVERYTHING = ["drop_out(0.3)", "straggle(deadline=1.5, spread=0.7)", "send_nan(0.2)", "flip_sign(0.2)",
              "flip_labels(0.3)"]


def everything(simulation):
    """Models, state of the server's pieces, and what clients remember: all that a round can change."""
    memory, everyone = simulation.memory, range(simulation.task.num_clients)
    return {number: tree_leaves((entry.model.params, entry.model.buffers, entry.chain,
                                 tuple(memory.row(number, client) for client in everyone) if memory else ()))
            for number, entry in simulation.models.items()}


def same(one, other):
    """Bit for bit."""
    return one.keys() == other.keys() and all(len(one[n]) == len(other[n]) and all(
        torch.equal(a, b) for a, b in zip(one[n], other[n], strict=True)) for n in one)


def trained(recipe, model=None, make=Sequential, rounds=None, **options):
    with torch.random.fork_rng(devices=[]):
        task = build_task(recipe, model=model() if model else None)
        simulation = Simulation(task, make(task), **options)
        return simulation, [simulation.advance() for _ in range(recipe.rounds if rounds is None else rounds)]


@pytest.mark.parametrize("name", RECIPES_TRIED)
def test_who_is_left_out_might_as_well_not_have_been_asked(name, monkeypatch):
    """Models, buffers, state, memories, losses: the same bits. The record says who and why, and what was sent."""
    recipe, model = RECIPES_TRIED[name]
    simulation, records = trained(recipe.replace(adversity=TROUBLE, guard=GUARD), model)
    monkeypatch.setattr("askew.rounds.round.sample", lambda task, round: [0, 1, 2])
    other, others = trained(recipe, model)
    assert same(everything(simulation), everything(other))
    for record, expected in zip(records, others, strict=True):
        assert record["dropped_clients"] == LEFT_OUT
        models = 2 if record["round"] == 2 and len(simulation.models) > 1 else 1  # of which each client sends an update
        assert record["dropped"] == dict.fromkeys(LEFT_OUT, models)
        assert (record["train_loss"], record["accuracy"]) == (expected["train_loss"], expected["accuracy"])
        assert (record["clients"], expected["clients"]) == (6, 3)
        assert record["bytes_down"] == 2 * expected["bytes_down"]
        assert record["bytes_up"] * 3 == expected["bytes_up"] * 5  # what a guard refuses was sent


@pytest.mark.parametrize("form", [form for form in FORMS if form != "compiled"])
def test_every_form_leaves_out_the_same(form):
    _, records = trained(SMALL.replace(adversity=TROUBLE, guard=GUARD), make=FORMS[form])
    assert [record["dropped_clients"] for record in records] == [LEFT_OUT] * 2


@pytest.mark.parametrize("place", ["update", "buffers", "control", "losses"])
@pytest.mark.parametrize("nonsense", [torch.nan, torch.inf, -torch.inf])
def test_whatever_a_client_sends_must_be_finite(place, nonsense):
    """Of three clients the second has one number, somewhere in what it sends, that is not."""
    ones = torch.ones
    sent = {"update": ones(3, 2, 2), "buffers": ones(3, 4), "control": ones(3), "losses": ones(3)}
    sent[place].view(3, -1)[1, -1] = nonsense
    losses = sent.pop("losses")
    message = {**{name: {"w": v} for name, v in sent.items()}, "count": torch.tensor([1, 2, 3])}
    lengths = _lengths(Chunk([Job(0, client) for client in range(3)], message, losses))
    assert lengths.isnan().tolist() == [False, True, False]
    assert lengths[[0, 2]].tolist() == [2.0, 2.0]


def in_forms():
    """In CI each recipe in one form, in turn; in the long run each in all."""
    forms = [form for form in FORMS if form != "compiled"]
    return [pytest.param(name, form, id=f"{form}-{name}") for i, name in enumerate(RECIPES_TRIED)
            for form in (forms if LONG else [forms[i % len(forms)]])]


@pytest.mark.parametrize(("name", "form"), in_forms())
def test_every_method_in_every_form_when_everything_goes_wrong(name, form):
    recipe, model = RECIPES_TRIED[name]
    recipe = recipe.replace(adversity=EVERYTHING, guard=GUARD, rounds=3)
    reference, records = trained(recipe, model)
    simulation, recorded = trained(recipe, model, FORMS[form])
    assert {reason for record in records for reason in record["dropped"]} >= {"dropped_out", "late", "not_finite"}
    for got, expected in zip(recorded, records, strict=True):
        exact = ["clients", "dropped", "dropped_clients", "simulated_seconds", "bytes_up", "bytes_down"]
        assert [got[key] for key in exact] == [expected[key] for key in exact]
        losses = [-1.0 if record["train_loss"] is None else record["train_loss"] for record in (got, expected)]
        assert losses[0] == pytest.approx(losses[1], rel=2e-3)
    rounds_off = any(word in name for word in ("fedcd", "sign_agreement", "ozdayi", "models"))  # 1e-7 becomes a step
    start = Simulation(reference.task, reference.engine).models[0].model.params
    for number in reference.models:
        ends = [run.models[number].model.params for run in (reference, simulation)]
        assert all(bool(v.isfinite().all()) for v in ends[0].values())
        moved, got = ({key: v - start[key] for key, v in end.items()} for end in ends)
        assert apart(got, moved) < (2e-2 if rounds_off else 1e-3)


@pytest.mark.parametrize("name", RECIPES_TRIED)
def test_a_round_in_which_nobody_is_left_leaves_the_model_as_it_is(name):
    """Also the state of the server's pieces and what clients remember; pools go on, evaluation too."""
    recipe, model = RECIPES_TRIED[name]
    probes = ["update_norms()", "weight_divergence()", "hypothesis_conflicts(inputs=20)"]
    simulation, records = trained(recipe.replace(adversity=["drop_out(1.0)"], probes=probes), model)
    before = Simulation(simulation.task, simulation.engine)
    for entry in simulation.models.values():
        assert all(torch.equal(v, before.models[0].model.params[key]) for key, v in entry.model.params.items())
        states = [tree_leaves(each.chain) for each in (entry, before.models[0])]
        assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    for record in records:
        assert record["train_loss"] is None
        assert record["dropped_clients"] == {"dropped_out": list(range(6))}
        assert record["bytes_up"] == 0 < record["bytes_down"]
        assert 0 <= record["accuracy"] <= 1
    assert (simulation.round, simulation.finished) == (2, True)


def test_a_guard_that_refuses_all_leaves_the_model_as_it_is():
    simulation, records = trained(SMALL.replace(adversity=["send_nan()"], guard=GUARD))
    assert all(torch.equal(v, Simulation(simulation.task, simulation.engine).models[0].model.params[key])
               for key, v in simulation.models[0].model.params.items())
    assert [record["dropped"] for record in records] == [{"not_finite": 6}] * 2
    assert [record["train_loss"] for record in records] == [None] * 2


def test_a_round_goes_on_after_one_in_which_nobody_was_left():
    """Momentum at the server starts where it was."""
    recipe = askew.methods.fedavgm(SMALL.replace(adversity=["drop_out(0.75)"], fraction=0.5, rounds=12))
    simulation, records = trained(recipe)
    empty = [record["round"] for record in records if record["train_loss"] is None]
    assert empty
    assert len(empty) < 9
    assert all(bool(v.isfinite().all()) for v in simulation.models[0].model.params.values())


@pytest.mark.parametrize("form", ["sequential", "eager", "graphed, two at a time"])
@pytest.mark.parametrize("name", ["fedavg()", "scaffold()", "fedcd(milestones=[1], bits=16)", "median",
                                  "batchnorm and dropout"])
def test_a_guard_that_refuses_nobody_changes_nothing(name, form):
    recipe, model = RECIPES_TRIED[name]
    make = {"sequential": Sequential, **FORMS}[form]
    plain, records = trained(recipe, model, make)
    guarded, recorded = trained(recipe.replace(guard=GUARD), model, make)
    assert same(everything(guarded), everything(plain))
    assert [{**record, "dropped": {}, "dropped_clients": {}} for record in records] == recorded


def test_statistics_of_batchnorm_do_not_see_what_is_refused():
    simulation, records = trained(SMALL.replace(adversity=["send_nan(0.3)"], guard=GUARD, rounds=4), normed)
    assert any(record["dropped"] for record in records)
    assert all(bool(v.isfinite().all()) for v in simulation.models[0].model.buffers.values())


def test_without_a_guard_one_bad_client_ends_the_run_and_the_line_names_the_remedy():
    recipe = SMALL.replace(adversity=["send_nan(clients=[3])"])
    with pytest.raises(askew.DivergedError) as error:
        trained(recipe)
    assert str(error.value) == ("round 1: the update of client 3 is not finite; clients send nonsense: add a guard "
                                "that leaves such updates out (guard = 'leave_out()')")


def test_a_run_that_goes_on_from_a_checkpoint_gives_the_same_bits():
    recipe = askew.methods.scaffold(SMALL.replace(adversity=EVERYTHING, guard=GUARD, rounds=6))
    whole, records = trained(recipe)
    part, begun = trained(recipe, rounds=3)
    gone_on = Simulation(build_task(recipe), part.engine)
    gone_on.state = part.state
    assert begun + [gone_on.advance() for _ in range(3)] == records
    assert same(everything(gone_on), everything(whole))


@pytest.mark.parametrize(("guard", "early"), [([], True), (GUARD, False)])
def test_rounds_that_are_begun_early_are_the_same(guard, early):
    """A guard depends on how the round before went: nothing is begun early."""
    recipe = SMALL.replace(adversity=["drop_out(0.5)", "flip_sign(0.2)"], guard=guard, rounds=4)
    plain, records = trained(recipe, make=Vectorised)
    ahead, recorded = trained(recipe, make=Vectorised, ahead=True)
    assert same(everything(ahead), everything(plain))
    assert records == recorded
    assert plain.engine.batches_lanes
    first = Simulation(plain.task, plain.engine, ahead=True)
    assert first.foresees(first.launch()) == early


@pytest.mark.filterwarnings("error")  # an engine that falls back to a plainer form says so
def test_configurations_with_different_adversities_train_together_as_alone():
    """Shares, seeds, guards and wrong labels of their own: nobody sees another's."""
    base = SMALL.replace(rounds=3)
    recipes = [base.replace(adversity=adversity, guard=guard, seed=seed)
               for seed in (0, 1) for adversity, guard in (
                   ((), ()), (["drop_out(0.3)"], ()), (["drop_out(0.6)"], ()), (EVERYTHING, GUARD),
                   (["flip_labels(0.5)"], ()), (["send_nan(0.3)"], GUARD), (["send_nan(1.0)"], ()))]
    outcomes = sweep(recipes, engine="vectorised")
    for recipe, outcome in zip(recipes, outcomes, strict=True):
        if recipe.adversity and str(recipe.adversity[0]) == "send_nan(share=1.0)" and not recipe.guard:
            assert outcome.diverged is not None
            continue
        simulation, records = trained(recipe)
        for key, v in simulation.models[0].model.params.items():
            torch.testing.assert_close(outcome.model[key], v, rtol=1e-4, atol=1e-5)
        assert [record.get("dropped") for record in outcome.records] == [record.get("dropped") for record in records]


@pytest.mark.parametrize(("adversity", "guard"), [
    ("send_nan(0.3)", GUARD), ("flip_sign(0.5)", []), ("send_scaled(1e9, 0.2)", GUARD),
    ("drop_out(0.0)", ["leave_out(times=1.0)"])])
def test_seeds_of_one_recipe_train_together_as_alone(adversity, guard):
    """Their rounds have one shape, so that their servers could be one computation, but for what each one leaves out."""
    equal = SMALL.replace(population="iid(clients=6) + subset(0.3)")
    recipes = [equal.replace(adversity=[adversity], guard=guard, seed=seed) for seed in range(4)]
    for recipe, outcome in zip(recipes, sweep(recipes, engine="vectorised"), strict=True):
        simulation, records = trained(recipe)
        for key, v in simulation.models[0].model.params.items():
            torch.testing.assert_close(outcome.model[key], v, rtol=1e-4, atol=1e-5)
        assert [record["dropped"] for record in outcome.records] == [record["dropped"] for record in records]


@pytest.mark.filterwarnings("error")
def test_pools_whose_models_differ_train_together_as_alone():
    """In a round a configuration may have nobody left, or models that the first one does not have."""
    base = askew.methods.fedcd(SMALL.replace(rounds=4), milestones=[1, 2], bits=16)
    shares = (1.0, 0.5, 0.2)
    recipes = [base.replace(adversity=[f"drop_out({share})"], seed=seed) for seed, share in enumerate(shares)]
    recipes[0] = recipes[0].replace(pool="clone_and_delete(milestones=[])")
    for recipe, outcome in zip(recipes, sweep(recipes, engine="vectorised"), strict=True):
        _, records = trained(recipe)
        for got, expected in zip(outcome.records, records, strict=True):
            assert (got["active_models"], got["dropped"]) == (expected["active_models"], expected["dropped"])


def test_two_of_a_kind_draw_by_themselves():
    """0.5 and 0.5 leave a quarter, not a half."""
    task = build_task(SMALL.replace(adversity=["drop_out(0.5)", "drop_out(0.5)"]))
    left = sum(6 - len(absent(task, round, range(6))[0]) for round in range(300))
    assert left / 1800 == pytest.approx(0.25, abs=0.05)


def test_of_several_reasons_the_first_counts():
    task = build_task(SMALL.replace(adversity=["drop_out(0.5)", "straggle(deadline=0.001)"]))
    reasons, measured = absent(task, 0, range(6))
    assert set(reasons.values()) == {"dropped_out", "late"}
    assert len(reasons) == 6
    assert measured == {"simulated_seconds": 0.001}


def test_updates_that_are_kept_until_all_have_come_must_fit(monkeypatch):
    monkeypatch.setattr("askew.engine.checks.device_memory", lambda device: 10_000)
    build_task(SMALL)
    with pytest.raises(askew.AskewError, match="or take a statistic that streams, and no guard"):
        build_task(SMALL.replace(guard=GUARD))
