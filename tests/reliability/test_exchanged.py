"""Files that were edited or exchanged while nobody looked, and sweeps of which a part is over: the same bits, or one
line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from victims import BASE, contents

import askew
from askew.pieces.methods import scaffold
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.usefixtures("one_thread")


def stop(record: askew.Record, recipe: askew.Recipe) -> None:
    if record["round"] == 4:
        raise KeyboardInterrupt


def test_a_recipe_edited_while_the_run_is_under_way_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run" / "recipe.toml"

    def edit(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] == 2:
            path.write_text(path.read_text().replace("lr=0.1", "lr=0.5").replace("rounds = 6", "rounds = 5"))
        stop(record, recipe)

    askew.run(BASE, out=tmp_path / "run", checkpoint_every=1, on_round=edit)
    with pytest.raises(askew.AskewError, match=r"client was .*lr=0.1.*, is .*lr=0.5.*; rounds was 6, is 5"):
        askew.resume(tmp_path / "run")


def test_a_recipe_deleted_while_the_run_is_under_way_costs_nothing(tmp_path: Path) -> None:
    whole = askew.run(BASE)

    def delete(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] == 2:
            (tmp_path / "run" / "recipe.toml").unlink()

    assert askew.run(BASE, out=tmp_path / "run", checkpoint_every=1, on_round=delete).records == whole.records


@pytest.mark.parametrize("edit", ["of a finished run", "says finished"])
def test_a_summary_that_is_not_the_runs_own_deletes_nothing(tmp_path: Path, edit: str) -> None:
    recipe = scaffold(BASE)
    askew.run(recipe, out=tmp_path / "whole")
    askew.run(recipe, out=tmp_path / "run", on_round=stop)
    path = tmp_path / "run" / "summary.json"
    if edit == "of a finished run":
        shutil.copy(tmp_path / "whole" / "summary.json", path)
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "stopped": None, "rounds": 6}))
    with pytest.warns(UserWarning, match="says that the run is finished, but .*: going on from its checkpoint"):
        askew.resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("edit", [lambda s: {k: v for k, v in s.items() if k != "files"}, lambda s: {**s, "files": []},
                                  lambda s: {**s, "files": {}}, lambda s: {**s, "stopped": 5},
                                  lambda s: {**s, "seconds": "x"}],
                         ids=["no sums", "list", "empty", "stopped", "seconds"])
def test_a_finished_run_without_its_checksums_is_trained_again(tmp_path: Path, edit) -> None:
    whole = sweep([BASE], folders=[tmp_path / "run"])
    before = contents(tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().partition("\n")[0] + "\n")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = sweep([BASE], folders=[tmp_path / "run"])
    assert again[0].records == whole[0].records
    assert contents(tmp_path / "run") == before


def test_the_engine_comes_from_the_checkpoint_not_from_a_file_that_anybody_edits(tmp_path: Path) -> None:
    askew.run(BASE, out=tmp_path / "whole", engine="vectorised")
    askew.run(BASE, out=tmp_path / "run", engine="vectorised", on_round=stop)
    path = tmp_path / "run" / "environment.json"
    path.write_text(path.read_text().replace('"vectorised"', '"sequential"'))
    askew.resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    askew.run(BASE, out=tmp_path / "other", engine="vectorised", on_round=stop)
    (tmp_path / "other" / "environment.json").unlink()
    askew.resume(tmp_path / "other")


@pytest.mark.slow
def test_a_sweep_of_which_most_is_over_goes_on_with_the_same_engine(tmp_path: Path) -> None:
    """"auto" looks at how many train together: as many as the sweep has, not as are left."""
    recipes = grid(BASE.replace(population="iid(clients=1)", fraction=1.0), {"seed": range(8)})
    folders = [tmp_path / "a" / f"{i}" for i in range(8)]
    sweep(recipes, folders=folders)
    whole = contents(tmp_path / "a")
    engines = {json.loads((folder / "environment.json").read_text())["engine"] for folder in folders}
    assert engines == {"vectorised"}, "else this test shows nothing"
    shutil.rmtree(folders[5])
    sweep(recipes, folders=folders)
    assert contents(tmp_path / "a") == whole


def test_links_and_folders_in_the_place_of_files_are_left_alone(tmp_path: Path) -> None:
    askew.run(BASE.replace(rounds=1), out=tmp_path / "run")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / ".a.askew-new.pt").write_text("mine")
    (tmp_path / "run" / "memory").symlink_to(mine)
    with pytest.raises(askew.AskewError, match="is a link"):
        askew.run(scaffold(BASE), out=tmp_path / "run", overwrite=True)
    assert [path.name for path in mine.iterdir()] == [".a.askew-new.pt"]
    (tmp_path / "run" / "memory").unlink()
    for name in ("checkpoint-3.json", "model-2.safetensors", "memory/1-1.pt"):
        (tmp_path / "run" / name).mkdir(parents=True)
        before = contents(tmp_path / "run")
        with pytest.raises(askew.AskewError, match="is a folder, where a run has a file"):
            askew.run(BASE, out=tmp_path / "run", overwrite=True)
        assert contents(tmp_path / "run") == before
        (tmp_path / "run" / name).rmdir()
