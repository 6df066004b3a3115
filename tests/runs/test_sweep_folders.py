"""A sweep with run folders can be stopped anywhere, and goes on as if it had never been."""

import json
import shutil

import pytest

import askew
from askew.pieces.methods import fedcd, fednnnn
from askew.rounds.simulation import Simulation
from askew.runs.run_folder import RunFolder
from askew.runs.sweep import grid, sweep

# A client that is alone in a step after an interruption was among others before it.
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]
# A rate that decays by rounds: lanes at different rounds must not share a step.
BASE = askew.Recipe(population="dirichlet_per_class(clients=5, alpha=0.5)", batch_size=48, rounds=4, fraction=0.6,
                    client="sgd(lr=decay(0.1, 0.7))", probes=["update_norms()"])
RECIPES = [*grid(BASE, {"sgd.lr": [0.03, 0.1], "seed": [0, 1]}), fednnnn(BASE), fedcd(BASE, milestones=[1, 2])]


def paths(folder, recipes=RECIPES):
    return [folder / f"{i}" for i in range(len(recipes))]


def contents(folder):
    """All files that must not depend on interruptions (times and dates do)."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name not in ("summary.json", "environment.json")}


def stop_at(number, round):
    def on_round(i, record, recipe):
        if (i, record["round"]) == (number, round):
            raise KeyboardInterrupt

    return on_round


@pytest.fixture(scope="module", params=["sequential", "vectorised"])
def whole(request, tmp_path_factory, one_thread):
    """A sweep that nothing disturbed: engine, folder, outcomes."""
    folder = tmp_path_factory.mktemp("whole")
    return request.param, folder, sweep(RECIPES, engine=request.param, folders=paths(folder))


@pytest.mark.parametrize(("number", "round"), [pytest.param(2, 2, marks=pytest.mark.slow), (3, 4),
                                               pytest.param(5, 3, marks=pytest.mark.slow)])
def test_interrupted_and_gone_on_with_is_the_same_bit_for_bit(whole, number, round, tmp_path):
    engine, folder, undisturbed = whole
    stopped = sweep(RECIPES, engine=engine, folders=paths(tmp_path / "broken"), on_round=stop_at(number, round))
    assert any(outcome.interrupted for outcome in stopped)
    went_on = sweep(RECIPES, engine=engine, folders=paths(tmp_path / "broken"))
    assert not any(outcome.interrupted for outcome in went_on)
    assert [o.records for o in went_on] == [o.records for o in undisturbed]
    assert contents(tmp_path / "broken") == contents(folder)


def test_with_folders_the_results_are_those_without(tmp_path):
    written, plain = sweep(RECIPES, folders=paths(tmp_path)), sweep(RECIPES)
    assert [o.records for o in written] == [o.records for o in plain]
    assert [o.together for o in written] == [o.together for o in plain]
    assert RunFolder.open(tmp_path / "1").recipe == RECIPES[1]
    assert RunFolder.open(tmp_path / "1").records() == written[1].records


def test_configurations_at_different_rounds_catch_up_and_join(tmp_path):
    """Two at round 2, two at the start: the rate decays by round, so a shared step would give them the wrong one."""
    recipes, folders = RECIPES[:4], paths(tmp_path / "broken", RECIPES[:4])
    whole = sweep(recipes, engine="vectorised", folders=paths(tmp_path / "whole", recipes))
    sweep(recipes[:2], engine="vectorised", folders=folders[:2], on_round=stop_at(1, 2))
    seen = []
    went_on = sweep(recipes, engine="vectorised", folders=folders,
                    on_round=lambda i, record, recipe: seen.append((i, record["round"])))
    assert [o.records for o in went_on] == [o.records for o in whole]
    fresh = seen[4:]  # what the first sweep did is told first: rounds 1 and 2 of two configurations
    assert seen[:4] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert fresh == [(2, 1), (3, 1), (2, 2), (3, 2)] + [(i, r) for r in (3, 4) for i in range(4)]


def test_auto_goes_on_with_the_engine_that_a_run_began_with(tmp_path):
    recipes = RECIPES[:2]
    by_engine = {engine: [o.records for o in sweep(recipes, engine=engine)]
                 for engine in ("sequential", "vectorised", "auto")}
    assert by_engine["auto"] == by_engine["vectorised"] != by_engine["sequential"], "else this test shows nothing"
    sweep(recipes, engine="sequential", folders=paths(tmp_path, recipes), on_round=stop_at(0, 2))
    went_on = sweep(recipes, folders=paths(tmp_path, recipes))
    assert went_on[0].records == by_engine["sequential"][0]


def test_what_is_finished_or_diverged_is_not_trained_again(tmp_path, monkeypatch):
    recipes = grid(BASE, {"sgd.lr": [0.1, 1e30]})
    first = sweep(recipes, folders=paths(tmp_path, recipes))
    assert [o.diverged is None for o in first] == [True, False]

    def refuse(self):
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(Simulation, "begin", refuse)
    told, ended = [], []
    again = sweep(recipes, folders=paths(tmp_path, recipes), on_round=lambda i, record, recipe: told.append(i),
                  on_end=lambda i, outcome: ended.append(i))
    assert [o.records for o in again] == [o.records for o in first]
    assert [o.diverged for o in again] == [o.diverged for o in first]
    assert again[0].model.keys() == first[0].model.keys()
    assert told == [0] * 4
    assert ended == [0, 1]


def test_killed_between_checkpoints(tmp_path):
    def power_cut(i, record, recipe):
        if (i, record["round"]) == (1, 3):
            shutil.copytree(tmp_path / "whole", tmp_path / "broken")

    whole = sweep(RECIPES[:2], folders=paths(tmp_path / "whole", RECIPES[:2]), checkpoint_every=1, on_round=power_cut)
    assert len((tmp_path / "broken" / "0" / "metrics.jsonl").read_text().splitlines()) == 3
    sweep(RECIPES[:2], folders=paths(tmp_path / "broken", RECIPES[:2]))
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert len(whole) == 2


def test_interrupted_while_a_finished_one_is_written(tmp_path, monkeypatch):
    """It is kept at its last round, and going on trains nothing more."""
    recipes = RECIPES[:2]
    whole = sweep(recipes, folders=paths(tmp_path / "whole", recipes))
    real, calls = RunFolder.save_summary, []

    def strike(self, summary):
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(self, summary)

    monkeypatch.setattr(RunFolder, "save_summary", strike)
    stopped = sweep(recipes, folders=paths(tmp_path / "broken", recipes))
    assert [len(o.records) for o in stopped] == [4, 4]
    monkeypatch.setattr(RunFolder, "save_summary", real)
    went_on = sweep(recipes, folders=paths(tmp_path / "broken", recipes))
    assert [o.records for o in went_on] == [o.records for o in whole]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_a_warm_up_is_not_trained_again(tmp_path, monkeypatch):
    recipe = BASE.replace(population=BASE.population + "hold_out(0.1)", start="warm_up(until=0.5)")
    whole = sweep([recipe], folders=[tmp_path / "whole"])
    sweep([recipe], folders=[tmp_path / "broken"], on_round=stop_at(0, 2))
    monkeypatch.setattr("askew.engine.start.train_pooled", None)
    went_on = sweep([recipe], folders=[tmp_path / "broken"])
    assert went_on[0].recipe == recipe
    assert went_on[0].records == whole[0].records


@pytest.mark.slow
def test_the_limit_stops_at_the_end_of_a_round(tmp_path):
    recipes = [recipe.replace(rounds=100_000) for recipe in RECIPES[:2]]
    stopped = sweep(recipes, engine="vectorised", folders=paths(tmp_path, recipes), limit_s=0.8)
    rounds = [len(o.records) for o in stopped]
    assert rounds[0] == rounds[1] > 0
    assert all(o.interrupted for o in stopped)
    assert all(json.loads((tmp_path / name / "summary.json").read_text())["stopped"] == "interrupted" for name in "01")
    further = sweep(recipes, engine="vectorised", folders=paths(tmp_path, recipes), limit_s=0.8)
    assert len(further[0].records) > rounds[0]
    assert further[0].records[: rounds[0]] == stopped[0].records
    assert further[0].seconds > stopped[0].seconds + 0.3  # all sessions count


def test_what_the_limit_did_not_reach_has_no_records(tmp_path):
    recipes = [BASE.replace(rounds=100_000), BASE.replace(batch_size=40)]
    outcomes = sweep(recipes, folders=paths(tmp_path, recipes), limit_s=0.5)
    assert outcomes[1].interrupted
    assert outcomes[1].records == []
    assert not (tmp_path / "1").exists()


def test_a_folder_of_another_recipe_is_refused(tmp_path):
    sweep(RECIPES[:1], folders=[tmp_path / "0"])
    before = contents(tmp_path)
    with pytest.raises(askew.AskewError, match="holds a run of another recipe"):
        sweep(RECIPES[1:2], folders=[tmp_path / "0"])
    assert contents(tmp_path) == before
    renamed = sweep([RECIPES[0].replace(name="other")], folders=[tmp_path / "0"])
    assert renamed[0].recipe.name == "other"


def test_missing_data_are_missed_before_anything_is_trained(tmp_path):
    recipes = [BASE, BASE.replace(data="mnist()")]
    with pytest.raises(askew.AskewError, match="mnist: no folder"):
        sweep(recipes, folders=paths(tmp_path / "out", recipes), data_dir=str(tmp_path))
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_one_line():
    with pytest.raises(askew.AskewError, match="device 'warp' is not available here"):
        sweep(RECIPES[:1], device="warp")


def test_who_may_read_a_folder_may_read_all_that_is_in_it(tmp_path):
    """A colleague reads a run, or its page is made under another account: the marker says that it is askew's."""
    askew.run(askew.Recipe(rounds=1), out=tmp_path / "run")
    assert len({file.stat().st_mode for file in (tmp_path / "run").iterdir()}) == 1
