"""Methods side by side: the numbers are `askew.run`'s own, one measure for all, and no run spoils another."""

import json

import numpy as np
import pytest

import askew
from askew.core.dataset import Source
from askew.data import load
from askew.engine.build import build_task
from askew.engine.evaluate import evaluate
from askew.partition import draw
from askew.pieces.methods import centralised, data_sharing, fedavg, fedcd, fednnnn, fedprox
from askew.rounds.simulation import Simulation
from askew.runs import compare as module
from askew.runs.compare import SEEDS_AT_ONCE, compare
from askew.runs.judge import majority_accuracy, measured
from askew.runs.run_folder import RunFolder

pytestmark = pytest.mark.slow  # whole runs: tens of them

ONE_CLASS = "shards(clients=10, shards_per_client=1)"
BASE = askew.Recipe(rounds=3, population=ONE_CLASS, batch_size=40)
BLOWS_UP = BASE.replace(client=["sgd(lr=1000000000.0)"])


def test_every_number_is_that_of_a_run_by_itself(tmp_path):
    recipes = {"fedavg": fedavg(BASE), "fednnnn": fednnnn(BASE)}
    table = compare(recipes, [4, 7], target=0.25, out=tmp_path / "c").as_mapping()
    assert table["judge"] == "global"
    assert [row["name"] for row in table["methods"]] == ["fedavg", "fednnnn"]
    for row, recipe in zip(table["methods"], recipes.values(), strict=True):
        alone = [askew.run(recipe.replace(seed=seed)) for seed in (4, 7)]
        assert row["accuracies"] == [result.accuracy for result in alone]
        assert row["accuracy_mean"] == pytest.approx(np.mean(row["accuracies"]))
        assert row["accuracy_std"] == pytest.approx(np.std(row["accuracies"], ddof=1))
        assert row["bytes"] == alone[0].total("bytes_up") + alone[0].total("bytes_down")
        assert row["rounds_to_target_by_seed"] == [result.rounds_to(0.25) for result in alone]
        curve = np.mean([[r["accuracy"] for r in result.evaluations] for result in alone], axis=0)
        assert row["best_round"] == curve.argmax() + 1
        assert row["best_accuracy"] == pytest.approx(curve.max())
        assert askew.Recipe.from_mapping(row["settings"]) == recipe.replace(judge="global")
    saved = json.loads((tmp_path / "c" / "table.json").read_text())
    assert saved["methods"] == table["methods"]
    assert saved["environment"]["versions"]["torch"]
    folder = RunFolder.open(tmp_path / "c" / "fednnnn-seed7")
    assert folder.recipe == recipes["fednnnn"].replace(seed=7, judge="global")
    assert folder.summary["accuracy"] == table["methods"][1]["accuracies"][1]


def test_methods_of_one_shape_train_together_with_the_bits_of_a_run_alone():
    """A few seeds at once. Training in one place suits another engine, which it keeps."""
    recipes = {"fedavg": fedavg(BASE), "centralised": centralised(BASE.replace(batch_size=1)), "fednnnn": fednnnn(BASE),
               "data_sharing": data_sharing(BASE), "fedprox": fedprox(BASE)}
    told = []
    result = compare(recipes, [0, 1],
                     on_round=lambda record, recipe: told.append((recipe.seed, recipe.name, record["round"])))
    assert ([run.together for contender in result.contenders for run in contender.finished]
            == [6, 6, 1, 1, 6, 6, 6, 6, 2, 2])
    assert told[:12] == [(seed, name, round) for round in (1, 2) for seed in (0, 1)
                         for name in ("fedavg", "fednnnn", "data_sharing")]
    for contender in result.contenders:
        for run in contender.finished:
            assert run.records == askew.run(run.recipe).records, contender.label


def test_what_trains_in_one_place_is_seen_by_what_it_owns():
    recipes = {"fedavg": fedavg(BASE), "alone": BASE.replace(population="iid(clients=1)"),
               "part": BASE.replace(population="pooled() + hold_out(0.5)")}
    assert [c.is_ceiling for c in compare(recipes, [0]).contenders] == [False, True, False]


def test_a_comparison_that_diverged_is_not_trained_again(tmp_path, monkeypatch):
    recipes = {"wild": fedavg(BLOWS_UP), "fedavg": fedavg(BASE)}
    first = compare(recipes, [0], out=tmp_path / "c").as_mapping()
    monkeypatch.setattr(Simulation, "begin", None)
    again = compare(recipes, [0], out=tmp_path / "c", go_on=True).as_mapping()
    assert [(row["accuracies"], row["diverged"]) for row in again["methods"]] == [
        (row["accuracies"], row["diverged"]) for row in first["methods"]]
    seconds, before = ([row["seconds"] for row in table["methods"]] for table in (again, first))
    assert seconds == pytest.approx(before, abs=0.001)


def test_the_target_is_a_share_of_what_centralised_training_reaches():
    recipes = {"fedavg": fedavg(BASE), "ceiling": centralised(BASE)}
    result = compare(recipes, [0])
    ceiling = askew.run(recipes["ceiling"])
    assert result.target == pytest.approx(0.95 * ceiling.accuracy)
    row = result.as_mapping()["methods"][1]
    assert row["rounds_to_target"] == ceiling.rounds_to(result.target)
    assert row["accuracy_std"] is None  # one seed has no spread
    assert row["bytes"] == 0
    without = compare({"fedavg": recipes["fedavg"]}, [0])
    assert without.target == pytest.approx(0.95 * askew.run(recipes["fedavg"]).accuracy)
    assert "the best" in without.target_is


def test_gap_closed_is_measured_between_fedavg_and_the_ceiling():
    recipes = {"fedavg": fedavg(BASE), "centralised": centralised(BASE), "data_sharing": data_sharing(BASE)}
    rows = {row["name"]: row for row in compare(recipes, [0]).as_mapping()["methods"]}
    low, high, mine = (rows[name]["accuracy_mean"] for name in ("fedavg", "centralised", "data_sharing"))
    assert rows["data_sharing"]["gap_closed"] == pytest.approx((mine - low) / (high - low))
    assert rows["fedavg"]["gap_closed"] == 0
    assert rows["centralised"]["gap_closed"] is None


def test_a_run_that_diverges_says_why_and_the_others_go_on(tmp_path):
    seen = []
    recipes = {"wild": fedavg(BLOWS_UP), "fedavg": fedavg(BASE)}
    result = compare(recipes, [0, 1], out=tmp_path / "c", on_round=lambda record, recipe: seen.append(record))
    wild, tame = result.as_mapping()["methods"]
    assert wild["accuracy_mean"] is wild["rounds_to_target"] is wild["bytes"] is None
    assert [entry["seed"] for entry in wild["diverged"]] == [0, 1]
    assert "lower the learning rate" in wild["diverged"][0]["reason"]
    assert tame["accuracies"] == [askew.run(fedavg(BASE.replace(seed=seed))).accuracy for seed in (0, 1)]
    assert len(seen) == 2 * 2 * 3  # a progress bar is told of the rounds that were not reached


def test_ctrl_c_leaves_what_was_finished(tmp_path):
    recipes = {"fedavg": fedavg(BASE), "fednnnn": fednnnn(BASE)}
    calls = 0

    def stop(record, recipe):
        nonlocal calls
        calls += 1
        if calls == 2 * 3 * SEEDS_AT_ONCE + 2:  # 3 rounds of the first seeds; then round 1 of both with the next one
            raise KeyboardInterrupt

    first, last = list(range(SEEDS_AT_ONCE)), SEEDS_AT_ONCE
    result = compare(recipes, [*first, last], out=tmp_path / "c", on_round=stop)
    assert result.interrupted
    assert [[result.recipe.seed for result in c.finished] for c in result.contenders] == [first, first]
    assert json.loads((tmp_path / "c" / "table.json").read_text())["interrupted"]
    going_on = askew.resume(tmp_path / "c" / f"fedavg-seed{last}")
    assert going_on.records == askew.run(fedavg(BASE.replace(seed=last))).records


def test_with_a_personal_method_all_are_judged_by_device():
    base = BASE.replace(population="shards(clients=10, shards_per_client=2)", rounds=4)
    recipes = {"fedavg": fedavg(base), "fedcd": fedcd(base, milestones=[1, 2])}
    result = compare(recipes, [0])
    assert result.judge == "devices"
    rows = result.as_mapping()["methods"]
    by_device = askew.run(recipes["fedavg"].replace(judge="devices"))
    assert rows[0]["accuracy_mean"] == by_device.accuracy
    assert rows[0]["test_accuracy_mean"] == askew.run(recipes["fedavg"]).accuracy
    assert rows[0]["accuracy_mean"] != rows[0]["test_accuracy_mean"]
    assert rows[1]["accuracy_mean"] == askew.run(recipes["fedcd"]).accuracy  # on its own it is judged so anyway
    assert [row["personal"] for row in rows] == [False, True]
    asked = compare({name: recipe.replace(judge="global") for name, recipe in recipes.items()}, [0])
    assert asked.judge == "global"
    assert asked.as_mapping()["methods"][0]["accuracy_mean"] == rows[0]["test_accuracy_mean"]


@pytest.mark.parametrize("method", [centralised, data_sharing])
def test_models_of_other_clients_are_judged_on_the_same_devices(method, tmp_path):
    """Training in one place has one client, and shared data change what a client trains on: neither may choose the
    exam. By hand: each class's accuracy, weighted as the devices of the common federation have the classes."""
    base = BASE.replace(population="dirichlet(clients=8, alpha=0.2)", rounds=2)
    recipes = {"fedavg": fedavg(base), "fedcd": fedcd(base), "other": method(base)}
    row = compare(recipes, [3], out=tmp_path / "c").as_mapping()["methods"][2]
    result = askew.run(recipes["other"].replace(seed=3))
    per_class = evaluate(build_task(recipes["other"].replace(seed=3)), result.simulation.view()).class_scores
    counts = draw(base.population, Source.of(load("digits")), seed=3).counts
    expected = np.mean([(share / share.sum()) @ per_class for share in counts])
    assert row["accuracy_mean"] == pytest.approx(expected)
    assert row["accuracy_mean"] != pytest.approx(result.evaluations[-1]["device_accuracy_mean"])
    kept = RunFolder.open(tmp_path / "c" / "other-seed3")  # its recipe names the measure, so that it can be run again
    assert askew.run(kept.recipe).records == kept.records()


def test_the_plain_average_is_judged_where_a_method_evaluates_that():
    base = BASE.replace(population="dirichlet(clients=8, alpha=0.2) + hold_out(0.1)", rounds=2)
    recipes = {"fedcd": fedcd(base), "fednnnn": fednnnn(base)}
    row = compare(recipes, [0]).as_mapping()["methods"][1]
    result = askew.run(recipes["fednnnn"])
    per_class = evaluate(build_task(recipes["fednnnn"]), result.simulation.view()).class_scores
    counts = draw(base.population.scheme, Source.of(load("digits")), seed=0).counts
    assert row["accuracy_mean"] == pytest.approx(np.mean([(share / share.sum()) @ per_class for share in counts]))


def test_the_floor_of_the_device_measure():
    data = load("digits")
    one = draw("classes_per_client(clients=10, classes=1)", Source.of(data), seed=0)
    assert majority_accuracy(one, data.test.y.numpy()) == 1.0
    alike = draw("iid(clients=10)", Source.of(data), seed=0)
    assert majority_accuracy(alike, data.test.y.numpy()) == pytest.approx(0.1, abs=0.02)
    own_tests = draw("hierarchical()", Source.of(data), seed=0)
    labels = data.test.y.numpy()
    right = [np.mean(labels[own_tests.test[k]] == own_tests.counts[k].argmax()) for k in range(own_tests.num_clients)]
    assert majority_accuracy(own_tests, data.test.y.numpy()) == pytest.approx(np.mean(right))


def test_measured_prefers_the_common_devices():
    record = {"accuracy": 0.5, "device_accuracy_mean": 0.6}
    assert measured(record, "global") == 0.5
    assert measured(record, "devices") == 0.6
    assert measured({**record, "federation_device_accuracy_mean": 0.7}, "devices") == 0.7


def test_a_mistake_in_the_last_recipe_is_found_before_the_first_one_runs(tmp_path, monkeypatch):
    def no_run(*args, **kwargs):
        pytest.fail("nothing may run")

    monkeypatch.setattr(module, "drive", no_run)
    bad = BASE.replace(server=["mean()", "mask_by_sign_agreement(theta=99)"])
    with pytest.raises(askew.AskewError, match=r"^bad: .*theta = 99.*use at most 10"):
        compare({"fedavg": fedavg(BASE), "bad": bad}, [0], out=tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(("arguments", "message"), [
    ({"recipes": {}}, "nothing to compare"),
    ({"seeds": []}, "nothing to compare"),
    ({"seeds": [1, 1]}, "name one twice"),
    ({"target": 1.5}, r"target must be an accuracy in \(0, 1\], got 1.5"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises(askew.AskewError, match=message):
        compare(**{"recipes": {"fedavg": fedavg(BASE)}, "seeds": [0], **arguments})


def test_two_labels_never_share_a_folder(tmp_path):
    recipes = {"fedprox(mu=0.1)": fedprox(BASE, mu=0.1), "fedprox(mu=(0.1))": fedprox(BASE, mu=0.2)}
    compare({label: recipe.replace(rounds=1) for label, recipe in recipes.items()}, [0], out=tmp_path / "c")
    mus = sorted(RunFolder.open(path).recipe.client[0].args["mu"]
                 for path in (tmp_path / "c").iterdir() if path.is_dir())
    assert mus == [0.1, 0.2]
    with pytest.raises(askew.AskewError, match="not empty"):
        compare(recipes, [0], out=tmp_path / "c")


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path):
    """Finished runs are kept, those under way are resumed, the rest is done: the same numbers as without the break."""
    # The second and third train together.
    recipes = {"fedprox": fedprox(BASE), "fedavg": BASE, "fednnnn": fednnnn(BASE), "fedcd": fedcd(BASE)}
    whole = compare(recipes, [0], out=tmp_path / "whole")
    rounds = 0

    def stop_in_the_second_group(record, recipe):
        nonlocal rounds
        rounds += 1
        if rounds == BASE.rounds + 1:
            raise KeyboardInterrupt

    cut = compare(recipes, [0], out=tmp_path / "cut", on_round=stop_in_the_second_group)
    assert cut.interrupted
    assert [len(c.finished) for c in cut.contenders] == [1, 0, 0, 0]
    assert ([any((tmp_path / "cut" / f"{name}-seed0").glob("checkpoint-*.pt")) for name in recipes]
            == [False, True, True, False])
    kept = (tmp_path / "cut" / "fedprox-seed0" / "model.safetensors").stat().st_mtime_ns
    done = compare(recipes, [0], out=tmp_path / "cut", go_on=True)
    assert not done.interrupted
    assert (tmp_path / "cut" / "fedprox-seed0" / "model.safetensors").stat().st_mtime_ns == kept, "not trained again"
    for a, b in zip(whole.contenders, done.contenders, strict=True):
        assert a.finished[0].records == b.finished[0].records
    assert compare({"fedavg": BASE}, [0], out=tmp_path / "not begun", go_on=True).contenders[0].finished
    with pytest.raises(askew.AskewError, match="holds a run of another recipe"):
        compare({"fedavg": BASE.replace(rounds=7)}, [0], out=tmp_path / "cut", go_on=True)
