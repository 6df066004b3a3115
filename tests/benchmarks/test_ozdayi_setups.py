"""The search for ozdayi2020's set-up: groups of one shape, parts that do nothing where they should, tiny runs."""

import json
import sys
from pathlib import Path

import pytest
from conform.forms import LONG

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from ozdayi_setups import GROUPS, Setup, configurations, main, tiny_data

import askew
from askew.core import registry
from askew.core.schedule import value_at
from askew.papers.ozdayi2020.items import BASE
from askew.runs.configuration import shape_of

EVERY = [members for group in GROUPS for members in configurations(group)]


def test_members_of_a_group_train_together_and_none_stands_twice():
    assert all(len({shape_of(recipe) for _, _, recipe in members}) == 1 for members in EVERY)
    prints = [recipe.fingerprint for members in EVERY for _, _, recipe in members]
    assert len(set(prints)) == len(prints)
    names = [recipe.name for members in EVERY for _, _, recipe in members]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("falls", "rates"), [
    ("never", [0.2] * 5), ("plateau", [0.2] * 5), ("drops", [0.2, 0.2, 0.02, 0.02, 0.002]),
    ("cosine", [0.2, 0.2 * 0.5157, 0.1, 0.2 * 0.1577, 0.2 * 0.1464])])
def test_how_the_rate_falls(falls, rates):
    """After 0, 49, 50, 74 and 75 of 100 rounds; (1 + cos(pi t / 100)) / 2 is 0.5157, 0.5, 0.1577, 0.1464."""
    recipe = Setup(lr=0.2, falls=falls).recipe("pooled()", 100, 256)
    (sgd,) = (spec for spec in recipe.client if spec.name == "sgd")
    schedule = registry.build("schedule", sgd.args["lr"])
    assert [value_at(schedule, t) for t in (0, 49, 50, 74, 75)] == pytest.approx(rates, rel=1e-3)
    patience = recipe.server[1].args["patience"]
    assert patience == 15 if falls == "plateau" else patience >= recipe.rounds


@pytest.mark.slow
def test_the_control_is_the_papers_recipe():
    """What a shape has besides (no clipping, a rate that does not fall, nothing on a plateau) changes no number."""
    setup = GROUPS["plain"][0]
    recipe = setup.recipe("label_blocks(clients=2)", 2, 8)
    plain = BASE.replace(population="label_blocks(clients=2)", rounds=2, batch_size=8)
    ours, theirs = (askew.run(one, data=tiny_data(), engine="sequential").records for one in (recipe, plain))
    assert [r["train_loss"] for r in ours] == pytest.approx([r["train_loss"] for r in theirs], rel=1e-6)


@pytest.mark.skipif(not LONG, reason="ResNet-20 six times: in the long run, ASKEW_LONG=1")
def test_tiny(tmp_path, capsys):
    """A group from the command line: all are in the file, with their curves, also when the limit has stopped them."""
    out, stopped = tmp_path / "a.json", tmp_path / "b.json"
    main(["--tiny", "--groups", "batchnorm", "--out", str(out), "--runs", str(tmp_path / "runs")])
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 3 * len(GROUPS["batchnorm"])
    assert {row["state"] for row in rows} == {"finished"}
    assert all(row["round"] == [2] and len(row["train_loss"]) == 2 and row["seconds_each"] >= 0 for row in rows)
    assert len({row["together"] for row in rows}) == 2
    assert capsys.readouterr().err.count("finished after 2 rounds") == len(rows)
    main(["--tiny", "--groups", "batchnorm", "--out", str(stopped), "--limit", "0"])
    assert not stopped.exists() or {row["state"] for row in json.loads(stopped.read_text())["rows"]} == {"interrupted"}


def test_what_is_refused(tmp_path, refused):
    (tmp_path / "a.json").write_text("mine")
    with refused("--out: .* exists already"):
        main(["--tiny", "--out", str(tmp_path / "a.json")])
    with refused("--groups: no group 'nothing'; there are program"):
        main(["--tiny", "--out", str(tmp_path / "b.json"), "--groups", "nothing"])
