"""The same seed gives the same bytes; the default recipe gives the same curve as ever."""

import json

import pytest

import askew
from askew.pieces.methods import fedavgm, fedcd, fednnnn

BASE = askew.Recipe(rounds=3, fraction=0.5, batch_size=40)


@pytest.mark.parametrize("recipe", [BASE, fednnnn(BASE), fedcd(BASE, milestones=[1]),
                                    BASE.replace(client=["add_gradient_noise(0.01)", "sgd(lr=0.1, momentum=0.5)"])],
                         ids=["fedavg", "fednnnn", "fedcd", "noise"])
def test_a_seed_gives_the_same_bytes_twice_and_another_seed_others(recipe, tmp_path):
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        askew.run(recipe.replace(seed=seed), out=tmp_path / name)
    endings = (".jsonl", ".safetensors", ".toml")
    files = sorted(path.name for path in (tmp_path / "one").iterdir() if path.suffix in endings)
    assert {"metrics.jsonl", "model.safetensors", "recipe.toml"} <= set(files)
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() != (tmp_path / "other" / name).read_bytes(), name


def test_the_order_of_other_runs_plays_no_part():
    first = askew.run(fedavgm(BASE)).records
    askew.run(BASE.replace(seed=9))
    assert askew.run(fedavgm(BASE)).records == first


# (accuracy, loss, train_loss) of the default recipe's first five rounds.
GOLDEN = [(0.155556, 2.251349, 1.286954), (0.372222, 2.167225, 0.975123), (0.566667, 2.071454, 0.835069),
          (0.658333, 1.963973, 0.722459), (0.661111, 1.860827, 0.630154)]


def test_the_default_recipes_curve_is_the_one_it_was():
    """A change here means that every published number has to be measured again."""
    records = askew.run(askew.Recipe(rounds=5), engine="sequential").records
    got = [[record[key] for key in ("accuracy", "loss", "train_loss")] for record in records]
    for mine, golden in zip(got, GOLDEN, strict=True):
        assert mine == pytest.approx(list(golden), abs=1e-4)


def test_what_a_run_folder_holds(tmp_path):
    recipe = askew.Recipe(rounds=2, seed=4)
    result = askew.run(recipe, out=tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "askew.json", "environment.json", "evaluation.json", "metrics.jsonl", "model.json", "model.safetensors",
        "recipe.toml", "summary.json"]
    assert askew.Recipe.from_toml((tmp_path / "run" / "recipe.toml").read_text()) == recipe
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == result.records
    assert [line["round"] for line in lines] == [1, 2]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["accuracy"] == result.accuracy
    assert summary["stopped"] is None
    assert (summary["rounds"], summary["seed"], summary["bytes_up"]) == (2, 4, 2 * 10 * 4 * 4810)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert {"python", "torch", "numpy", "askew"} <= set(environment["versions"])
    assert environment["engine"] == result.simulation.engine.name
