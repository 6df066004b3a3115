"""A file that has changed is noticed: a run goes on to the same bits, or is refused in a line, never to other bits."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from victims import BASE, LONG, contents, record

import askew
from askew.core.population import Ownership, Population
from askew.pieces.methods import scaffold
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = scaffold(BASE)


def stop_after(rounds: int, record: askew.Record, recipe: askew.Recipe) -> None:
    if record["round"] == rounds:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """`whole`, undisturbed; `broken`, stopped after round 4 with checkpoints after rounds 3 and 4."""
    folder = tmp_path_factory.mktemp("runs")
    askew.run(RECIPE, out=folder / "whole")
    askew.run(RECIPE, out=folder / "broken", checkpoint_every=1,
              on_round=lambda record, recipe: stop_after(4, record, recipe))
    assert {path.name for path in (folder / "broken").glob("checkpoint-*")} == {
        f"checkpoint-{n}.{end}" for n in (3, 4) for end in ("json", "pt")}
    return folder


def resumed(folder: Path) -> str:
    """What comes of going on: `refused`, `warned` (and went on) or `went on`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            askew.resume(folder)
        except askew.AskewError as error:
            return "refused" if "\n" not in str(error) else "refused in several lines"
    return "warned" if caught else "went on"


@pytest.mark.slow
def test_a_flipped_bit_is_noticed_or_does_not_matter(runs: Path, tmp_path: Path) -> None:
    """In any file of the folder. Files that only describe (summary, environment) cannot change what is trained."""
    whole, generator, outcomes = contents(runs / "whole"), random.Random(11), Counter()
    names = sorted(str(path.relative_to(runs / "broken")) for path in (runs / "broken").rglob("*") if path.is_file())
    for name in names:
        for n in range(40 if LONG else 2):
            folder = tmp_path / f"{name.replace('/', '-')}-{n}"
            shutil.copytree(runs / "broken", folder)
            content = bytearray((folder / name).read_bytes())
            at, bit = generator.randrange(len(content)), generator.randrange(8)
            content[at] ^= 1 << bit
            (folder / name).write_bytes(bytes(content))
            outcome = resumed(folder)
            outcomes[name, outcome] += 1
            if outcome != "refused" and name != "askew.json":
                left = contents(folder)
                changed = [key for key in whole if left.get(key) != whole[key]]
                # A name in the recipe is for people: it may differ.
                assert not changed or (
                    changed == ["recipe.toml"]
                    and left["recipe.toml"].count(b"\n") == whole["recipe.toml"].count(b"\n")), (
                        f"bit {bit} of byte {at} of {name}: {changed} differ, {outcome}")
            shutil.rmtree(folder)
    seen = {name: {outcome: n for (other, outcome), n in sorted(outcomes.items()) if other == name} for name in names}
    assert seen["checkpoint-4.pt"].keys() == {"warned"}, "the one before it is taken"
    record("damage",
           {"what": "one flipped bit in a file of an interrupted run, then resume; silently other bits: 0",
            "files": seen})


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", ["checkpoint-4.pt", "checkpoint-4.json"])
def test_a_cut_checkpoint_is_replaced_by_the_one_before(runs: Path, tmp_path: Path, name: str, cut: float) -> None:
    shutil.copytree(runs / "broken", tmp_path / "run")
    content = (tmp_path / "run" / name).read_bytes()
    (tmp_path / "run" / name).write_bytes(content[: int(cut * len(content))])
    with pytest.warns(UserWarning, match="damaged.*going on from the one after round 3"):
        askew.resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(runs / "whole")


def test_two_damaged_checkpoints_are_refused(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "broken", tmp_path / "run")
    for n in (3, 4):
        (tmp_path / "run" / f"checkpoint-{n}.pt").write_bytes(b"x")
    with pytest.raises(askew.AskewError,
                       match=r"cannot be resumed: .*checkpoint-4.pt.*checkpoint-3.pt.*--overwrite"):
        askew.resume(tmp_path / "run")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"askew": 3}', '{"other": "run"}'])
def test_a_damaged_marker_is_named_with_its_remedy(runs: Path, tmp_path: Path, text: str) -> None:
    shutil.copytree(runs / "broken", tmp_path / "run")
    (tmp_path / "run" / "askew.json").write_text(text)
    with pytest.raises(askew.AskewError, match=r"a run whose askew.json was damaged, write \{.askew.: .run.\}"):
        askew.resume(tmp_path / "run")
    (tmp_path / "run" / "askew.json").write_text('{"askew": "run"}')  # as it says
    assert askew.resume(tmp_path / "run").finished


def test_a_newer_format_is_refused(runs: Path, tmp_path: Path) -> None:
    from askew.runs import checkpoints

    shutil.copytree(runs / "broken", tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-4.json"
    about = json.loads(path.read_text())
    del about["sha256"]
    about["format"] = 99
    path.write_text(json.dumps({**about, "sha256": checkpoints._sum_of(about)}))
    with pytest.raises(askew.AskewError, match="written by a newer version of askew"):
        askew.resume(tmp_path / "run")


@pytest.mark.parametrize(("change", "said"), [
    (lambda text: text.replace("lr=0.1", "lr=0.2"), r"another recipe .*client was .*lr=0.1.* is .*lr=0.2"),
    (lambda text: text.replace("rounds = 6", "rounds = 8"), r"rounds was 6, is 8"),
    (lambda text: text.replace("seed = 0", "seed = 1"), r"seed was 0, is 1"),
    (lambda text: "", "damaged: the recipe is empty"),
    (lambda text: text[:40], "not valid TOML"),
], ids=["rate", "rounds", "seed", "empty", "cut"])
def test_a_recipe_that_was_changed_is_refused(runs: Path, tmp_path: Path, change, said: str) -> None:
    shutil.copytree(runs / "broken", tmp_path / "run")
    path = tmp_path / "run" / "recipe.toml"
    path.write_text(change(path.read_text()))
    with pytest.raises(askew.AskewError, match=said):
        askew.resume(tmp_path / "run")


def test_a_checkpoint_of_another_run_is_refused(runs: Path, tmp_path: Path) -> None:
    """Of another network, and of another rate with the same network."""
    for name, other in {"network": RECIPE.replace(model="mlp(hidden=[32])"),
                        "rate": RECIPE.with_setting("sgd.lr", 0.3)}.items():
        shutil.copytree(runs / "broken", tmp_path / name)
        askew.run(other, out=tmp_path / f"other-{name}", checkpoint_every=1,
                  on_round=lambda record, recipe: stop_after(5, record, recipe))
        for path in (tmp_path / f"other-{name}").glob("checkpoint-*"):
            shutil.copy(path, tmp_path / name)
        with pytest.raises(askew.AskewError, match="is another recipe than the one that the run began with"):
            askew.resume(tmp_path / name)


def test_exchanged_data_are_noticed(tmp_path: Path) -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    data, other = (askew.Dataset.from_tensors((v[:40], torch.arange(40) % 2), (v[40:], torch.arange(20) % 2),
                                              name="mine")
                   for v in (x, x + 1e-6))
    ownerships = [Ownership.of([range(30), range(30, 40)]), Ownership.of([range(20), range(20, 40)])]
    population, another = (Population.of(owned, data.train.y.numpy(), 2) for owned in ownerships)
    recipe = askew.Recipe(rounds=4, model="mlp(hidden=[4])")
    whole = askew.run(recipe, data=data, population=population)
    askew.run(recipe, data=data, population=population, out=tmp_path / "run", on_round=lambda r, _: stop_after(2, r, _))
    with pytest.raises(askew.AskewError, match="the data is not the one that it began with"):
        askew.resume(tmp_path / "run", data=other, population=population)
    with pytest.raises(askew.AskewError, match="the population is not the one that it began with"):
        askew.resume(tmp_path / "run", data=data, population=another)
    assert askew.resume(tmp_path / "run", data=data, population=population).records == whole.records


@pytest.mark.parametrize("damage", ["half summary", "no summary", "weights", "metrics"])
def test_damage_to_a_finished_run_does_not_block_a_sweep(tmp_path: Path, damage: str) -> None:
    """It is trained again, with a warning, or goes on; the others are left alone."""
    recipes = grid(BASE, {"seed": [0, 1]})
    folders = [tmp_path / "sweep" / f"{i}" for i in range(2)]
    whole = sweep(recipes, folders=folders)
    before = contents(tmp_path / "sweep")
    path = folders[1] / {"weights": "model.safetensors", "metrics": "metrics.jsonl"}.get(damage, "summary.json")
    content = path.read_bytes()
    if damage == "no summary":
        path.unlink()
    elif damage == "half summary":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:-50] + bytes([content[-50] ^ 1]) + content[-49:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = sweep(recipes, folders=folders)
    assert [result.records for result in again] == [result.records for result in whole]
    assert contents(tmp_path / "sweep") == before


def test_an_earlier_versions_checkpoint_still_goes_on(runs: Path, tmp_path: Path) -> None:
    """One file without a checksum, and no marker."""
    shutil.copytree(runs / "broken", tmp_path / "run")
    run = tmp_path / "run"
    (run / "checkpoint-4.pt").rename(run / "checkpoint.pt")
    for path in [*run.glob("checkpoint-*"), run / "askew.json"]:
        path.unlink()
    with pytest.warns(UserWarning, match="is of an earlier version, which wrote no checksums"):
        askew.resume(run)
    assert contents(run) == contents(runs / "whole")
