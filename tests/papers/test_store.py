"""Results files: what goes in comes out."""

import dataclasses
import json

import pytest

import askew
from askew.papers.store import Results, Run, columns, read

RECIPE = askew.Recipe(rounds=3)


@pytest.fixture
def items(toy):
    return toy


def stored(seed=0, rounds=3, finished=True, recipe=RECIPE, accuracy=0.5, **changes):
    run = Run(recipe.fingerprint, recipe.name, seed, recipe.replace(seed=seed).to_toml(), rounds, finished, None,
              {"device": "cpu", "started": f"at {seed}", "data_dir": "/home/someone"}, 1.5, 2,
              columns([{"round": 1, "accuracy": accuracy}]))
    return dataclasses.replace(run, **changes)


def test_round_trip(items, tmp_path):
    first = stored(), stored(seed=1, finished=False, rounds=1), stored(seed=2, finished=False,
                                                                       diverged="round 2: it broke")
    Results(tmp_path).add((items[0], run) for run in first)
    path = tmp_path / "toy2020" / "table1.json"
    content = json.loads(path.read_text())
    assert [content[key] for key in ("paper", "item", "scale")] == ["toy2020", "table1", "full"]
    # no one's folders; one entry for equal machines
    assert content["environments"] == [{"device": "cpu", "started": "at 0"}]
    back = Results(tmp_path).seeds("toy2020", RECIPE.replace(name="other", seed=7))
    assert [run.seed for run in back] == [0, 1, 2]
    assert [run.done for run in back] == [True, False, True]
    for run, before in zip(back, first, strict=True):
        assert dataclasses.replace(run, environment=None) == dataclasses.replace(before, environment=None)
    assert askew.Recipe.from_toml(back[1].recipe) == RECIPE.replace(seed=1)
    assert [p.name for p in path.parent.iterdir()] == ["table1.json"]


def test_a_fingerprint_is_of_what_is_run():
    assert RECIPE.fingerprint == RECIPE.replace(name="other", seed=5).fingerprint
    others = [RECIPE.replace(rounds=4), RECIPE.replace(probes=["update_norms()"]), RECIPE.replace(client="sgd(lr=0.2)")]
    assert len({recipe.fingerprint for recipe in [RECIPE, *others]}) == 4


def test_columns_are_small_and_rounded():
    records = [{"round": 1, "clients": 10, "train_loss": 2.0, "bytes_up": 5, "device_accuracy_min": 0.1,
                "N": 1.23456789},
               {"round": 2, "clients": 10, "accuracy": 0.123456, "N": float("nan"), "group_accuracy": [0.1, 0.22222222],
                "choice": list(range(100)), "word": "x"}]
    assert columns(records) == {"round": [1, 2], "N": [1.2346, None], "accuracy": [None, 0.12346],
                                "group_accuracy": [None, [0.1, 0.22222]]}


def test_a_long_run_keeps_its_evaluated_rounds():
    records = [{"round": r, **({"accuracy": 0.5} if r % 10 == 0 else {})} for r in range(1, 2001)]
    assert columns(records)["round"] == list(range(10, 2001, 10))
    assert len(columns(records[:1000])["round"]) == 1000


def test_a_run_gives_way_only_to_one_that_is_further(items, tmp_path):
    table, figure = items
    results = Results(tmp_path)
    results.add([(figure, stored(finished=False, rounds=1))])
    results.add([(table, stored(finished=False, rounds=2))])  # the same run: it stays in the file where it stands
    assert not (tmp_path / "toy2020" / "table1.json").exists()
    results.add([(figure, stored(finished=False, rounds=1))])
    assert results.seeds("toy2020", RECIPE)[0].rounds == 2
    results.add([(figure, stored(accuracy=0.6))])
    results.add([(figure, stored(accuracy=0.9)), (figure, stored(finished=False, rounds=2))])
    for seen in (results, Results(tmp_path)):
        assert [run.records["accuracy"] for run in seen.seeds("toy2020", RECIPE)] == [[0.6]]


def test_what_another_process_wrote_meanwhile_stays(items, tmp_path):
    mine, theirs = Results(tmp_path), Results(tmp_path)
    assert mine.seeds("toy2020", RECIPE) == theirs.seeds("toy2020", RECIPE) == []
    theirs.add([(items[0], stored(seed=1))])
    mine.add([(items[0], stored(seed=0))])
    assert [run.seed for run in Results(tmp_path).seeds("toy2020", RECIPE)] == [0, 1]


def test_scales_are_apart(items, tmp_path):
    Results(tmp_path, "quick").add([(items[0], stored())])
    assert (tmp_path / "toy2020" / "quick" / "table1.json").is_file()
    assert Results(tmp_path).seeds("toy2020", RECIPE) == []
    assert len(Results(tmp_path, "quick").seeds("toy2020", RECIPE)) == 1
    with pytest.raises(askew.AskewError, match="unknown scale 'huge'"):
        Results(tmp_path, "huge")


@pytest.mark.parametrize("text", ["", "{}", '{"environments": [], "runs": [{"seed": 1}]}', "[1]"])
def test_other_files_are_refused_in_one_line(text, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(askew.AskewError, match="is not a results file") as error:
        read(tmp_path / "x.json")
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_take_results(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(askew.AskewError, match="is a file; name another folder"):
        Results(tmp_path / "file" / "results").check_writable()
    Results(tmp_path / "new" / "results").check_writable()
    assert not (tmp_path / "new").exists()


def curve(rounds, **changes):
    recipe = RECIPE.replace(rounds=changes.pop("of", rounds), evaluate_every=2)
    return stored(recipe=recipe, rounds=rounds, records=columns([
        {"round": r, "N": float(r), **({"accuracy": r / 100} if r % 2 == 0 else {})} for r in range(1, rounds + 1)]),
        **changes)


@pytest.mark.parametrize(("there", "asked", "state"), [
    (curve(8), 4, "finished"),
    (curve(6, of=8, finished=False), 4, "finished"),  # under way, and far enough
    (curve(3, of=8, finished=False), 4, "missing"),
    (curve(8), 5, "missing"),  # its last round would have been evaluated
    (curve(3, of=8, finished=False, diverged="round 4: it broke"), 6, "missing"),
    (curve(7, of=8, finished=False, diverged="round 8: it broke"), 6, "finished"),
    (curve(4), 8, "missing"),
])
def test_the_first_rounds_of_a_longer_run_are_the_shorter_run(items, tmp_path, there, asked, state):
    Results(tmp_path).add([(items[0], there)])
    recipe = RECIPE.replace(rounds=asked, evaluate_every=2, name="short")
    other = recipe.replace(client="sgd(lr=0.2)")
    for results in (Results(tmp_path), Results(tmp_path)):
        found = results.find("toy2020", recipe, 0)
        assert results.seeds("toy2020", recipe) == ([found] if found else [])
        assert results.find("toy2020", other, 0) is None
        assert results.find("toy2020", recipe, 1) is None
        assert (found is None) == (state == "missing")
        if found is not None:
            assert found.fingerprint == recipe.fingerprint
            assert found.finished
            assert found.diverged is None
            assert askew.Recipe.from_toml(found.recipe) == recipe
            assert found.records["round"] == list(range(1, asked + 1))


def test_a_run_of_its_own_goes_before_the_first_rounds_of_a_longer_one(items, tmp_path):
    results, recipe = Results(tmp_path), RECIPE.replace(rounds=4, evaluate_every=2)
    results.add([(items[0], curve(8)), (items[1], curve(4, seconds=77.0)), (items[1], curve(8, seed=2))])
    assert [(run.seed, run.seconds) for run in results.seeds("toy2020", recipe)] == [(0, 77.0), (2, 0.75)]


def test_a_run_gives_the_records_of_a_shorter_one():
    """Nothing that is done in a round depends on how many follow: for methods with schedules, memory, pools."""
    base = askew.Recipe(population="shards(clients=4, shards_per_client=2) + validation(0.2)", model="mlp(hidden=[8])",
                        client="sgd(lr=drops(0.1, at=[1, 2]), momentum=0.9)", fraction=0.5, rounds=2)
    plain = base.replace(client="sgd(lr=0.1)")
    for recipe in (askew.methods.fedavg(base), askew.methods.fednnnn(base), askew.methods.scaffold(plain),
                   askew.methods.fedcd(base, milestones=[1, 2])):
        short, longer = (askew.run(recipe.replace(rounds=rounds), engine="sequential").records for rounds in (2, 4))
        assert short == longer[:2]
