"""Early stopping: by held-out training examples, never by the test set; the bits up to there are those without it."""

import json

import numpy as np
import pytest
import torch

import askew
from askew.engine.evaluate import predict
from askew.pieces.methods import fedcd
from askew.runs.compare import compare
from askew.runs.run_folder import RunFolder
from askew.runs.sweep import sweep

pytestmark = pytest.mark.slow  # whole runs: tens of them

# A rate at which it is soon over, or goes up and down.
BASE = askew.Recipe(rounds=30, population="dirichlet_per_class(clients=5, alpha=0.3) + validation(0.2)",
                    batch_size=40, client="sgd(lr=0.5)", stop_after_no_gain=3)
KINDS = {
    "validation sets": BASE,
    "the server's examples": BASE.replace(population="dirichlet_per_class(clients=5, alpha=0.3) + hold_out(0.2)"),
    "several models": fedcd(BASE.replace(population="hierarchical(clients=10)"), milestones=[2]),
    "own last layers": BASE.replace(client=["sgd(lr=0.5)", "stay_local(['fc2.*'])"]),
    "every second round": BASE.replace(evaluate_every=2),
    "judged by devices": BASE.replace(judge="devices"),
}


def without_held_out(records):
    return [{name: value for name, value in record.items() if not name.startswith("held_out_")} for record in records]


@pytest.mark.parametrize(("name", "engine"), [
    *(pytest.param(name, "vectorised", marks=[pytest.mark.slow] * (name != "several models")) for name in KINDS),
    pytest.param("validation sets", "sequential", marks=pytest.mark.slow)])
def test_it_stops_where_the_rule_says_and_changes_no_bit_before(name, engine):
    recipe = KINDS[name]
    stopped = askew.run(recipe, engine=engine)
    scores = {r["round"]: r["held_out_accuracy"] for r in stopped.records if "held_out_accuracy" in r}
    best = max(scores, key=lambda round: (scores[round], -round))
    last = len(stopped.records)
    assert last < 30
    # The first evaluated round with three since the best so far.
    assert last == next(r for r in scores if r - max(
        (q for q in scores if q <= r), key=lambda q: (scores[q], -q)) >= 3)
    assert stopped.finished
    assert f"best in round {best}" in stopped.stopped_early
    whole = askew.run(recipe.replace(stop_after_no_gain=0, rounds=last), engine=engine)
    assert without_held_out(stopped.records) == whole.records
    assert all(torch.equal(v, whole.model[key]) for key, v in stopped.model.items())


def test_the_score_is_that_of_the_held_out_examples():
    result = askew.run(BASE.replace(rounds=2))
    simulation = result.simulation
    task, view = simulation.task, simulation.view(0)
    held = task.population.validation.indices
    right = predict(task, view, task.data.train.x[held]) == task.data.train.y[held]
    assert result.records[-1]["held_out_accuracy"] == pytest.approx(float(right.double().mean()))
    by_devices = askew.run(BASE.replace(rounds=2, judge="devices"))
    each = [float(right[torch.from_numpy(np.isin(held, task.population.validation[k]))].double().mean())
            for k in range(5)]
    assert by_devices.records[-1]["held_out_accuracy"] == pytest.approx(np.mean(each))
    assert not set(held) & set(task.population.train.indices)


@pytest.mark.slow
def test_stopped_early_is_finished_on_disk_and_resumed_to_the_same_bytes(tmp_path):
    whole = askew.run(BASE, out=tmp_path / "whole")
    folder = RunFolder.open(tmp_path / "whole")
    folder.check_whole()
    assert folder.is_finished
    assert json.loads((tmp_path / "whole" / "summary.json").read_text())["stopped_early"] == whole.stopped_early
    for at in (len(whole.records) - 2, len(whole.records)):  # the last: after the round that ends it
        def stop(record, recipe, at=at):
            if record["round"] == at:
                raise KeyboardInterrupt

        assert askew.run(BASE, out=tmp_path / f"{at}", on_round=stop).interrupted
        went_on = askew.resume(tmp_path / f"{at}")
        assert went_on.stopped_early == whole.stopped_early
        for name in ("metrics.jsonl", "model.safetensors", "evaluation.json", "recipe.toml"):
            assert (tmp_path / f"{at}" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(askew.AskewError, match="the run is finished"):
        askew.resume(tmp_path / "whole")


@pytest.mark.slow
def test_in_a_sweep_each_stops_by_itself(tmp_path):
    recipes = [BASE.replace(seed=seed) for seed in range(3)]
    folders = [tmp_path / str(seed) for seed in range(3)]
    together = sweep(recipes, engine="vectorised", folders=folders)
    assert len({len(result.records) for result in together}) > 1
    alone = [askew.run(recipe, engine="vectorised") for recipe in recipes]
    assert [len(r.records) for r in together] == [len(r.records) for r in alone]
    again = sweep(recipes, engine="vectorised", folders=folders)
    assert [r.stopped_early for r in again] == [r.stopped_early for r in together]


@pytest.mark.parametrize(("population", "problem"), [
    ("iid(clients=3)", r"no training examples are held out .* validation\(0.1\)"),
    ("iid(clients=3) + hold_out(0.1) + share(0.5)", "clients train on the server's examples"),
])
def test_without_held_out_examples_it_is_refused(population, problem, refused):
    with refused(problem):
        askew.run(BASE.replace(population=population))


def test_methods_are_compared_after_equally_many_rounds(refused):
    with refused("the same number of rounds; take stop_after_no_gain=3 out"):
        compare({"fedavg": BASE}, seeds=[0])
