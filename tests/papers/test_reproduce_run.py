"""Real runs of a small paper: what is missing is trained once, and an interruption changes nothing."""

import json
import re
import shutil
from dataclasses import replace

import pytest

import askew
from askew.core.recipe import Recipe
from askew.papers.item import Item, Row
from askew.papers.plan import needs
from askew.papers.rates import estimated_seconds, kind, known_rates, try_out
from askew.papers.run import reproduce
from askew.papers.store import Results
from askew.papers.summary import summarise
from askew.rounds.simulation import Simulation


@pytest.fixture
def go(toy, tmp_path):
    """Reproduce items into a folder; returns whether all was done."""

    def call(items, folder="a", scale="full", **options):
        return reproduce(items, Results(tmp_path / folder, scale), work=tmp_path / f"{folder}-work", **options)

    return call


def records(tmp_path, folder):
    """Of all runs in all files, by fingerprint and seed."""
    files = sorted((tmp_path / folder / "toy2020").glob("*.json"))
    return {(run["fingerprint"], run["seed"]): run["records"] for path in files
            for run in json.loads(path.read_text())["runs"]}


def count_rounds(monkeypatch):
    trained = []
    real = Simulation.complete

    def complete(self, launched):
        trained.append(self.task.recipe)
        return real(self, launched)

    monkeypatch.setattr(Simulation, "complete", complete)
    return trained


@pytest.mark.parametrize("engine", [pytest.param("sequential", marks=pytest.mark.slow), "vectorised"])
def test_interrupted_and_gone_on_with_is_the_same_bit_for_bit(engine, toy, go, tmp_path):
    assert go(toy, "whole", engine=engine, seeds=2)
    seen = 0

    def strike(record, recipe):
        nonlocal seen
        seen += 1
        if seen == 13:
            raise KeyboardInterrupt

    assert not go(toy, "broken", engine=engine, seeds=2, on_round=strike)
    under_way = [run for path in (tmp_path / "broken" / "toy2020").glob("*.json")
                 for run in json.loads(path.read_text())["runs"]]
    assert any(not run["finished"] and 0 < run["rounds"] < 4 for run in under_way)
    assert go(toy, "broken", engine=engine, seeds=2)
    assert len(records(tmp_path, "whole")) == 8
    assert records(tmp_path, "broken") == records(tmp_path, "whole")
    numbers = [summarise(item, Results(tmp_path / folder), 2).as_mapping() for folder in ("whole", "broken")
               for item in toy]
    assert numbers[:2] == numbers[2:]
    assert [entry["status"] for entry in numbers[:2]] == ["measured", "measured"]


def test_folders_that_an_earlier_version_named_and_wrote_are_gone_on_with(toy, go, tmp_path, monkeypatch):
    """Other names, for the fingerprints were others, and recipes as format 2 had them."""
    trained, seen = count_rounds(monkeypatch), []

    def strike(record, recipe):
        seen.append(record)
        if len(seen) == 5:
            raise KeyboardInterrupt

    assert go(toy, "whole", engine="sequential")
    whole = len(trained)
    assert not go(toy, "broken", engine="sequential", on_round=strike)
    folders = sorted((tmp_path / "broken-work" / "toy2020").iterdir())
    for number, folder in enumerate(folders):
        file = folder / "recipe.toml"
        text = re.sub(r"(sgd\(lr=[0-9.]+)", r"\1, lr_decay=1.0, lr_drops=[]", file.read_text())
        assert "lr_decay" in text
        file.write_text(text + "hold_out = 0.0\nhold_out_use = 0\nshare = 0.0\nvalidation = 0.0\n")
        folder.rename(folder.with_name(f"{number}-0"))
    assert go(toy, "broken", engine="sequential")
    assert len(trained) == 2 * whole, "no round twice"
    kept = {folder.name for folder in (tmp_path / "broken-work" / "toy2020").iterdir()}
    assert {f"{number}-0" for number in range(len(folders))} <= kept
    assert records(tmp_path, "broken") == records(tmp_path, "whole")


def test_what_is_done_is_not_run_again_and_shared_runs_are_trained_once(toy, go, tmp_path, monkeypatch):
    trained = count_rounds(monkeypatch)
    table, figure = toy
    assert go([table])
    assert len(trained) == 2 * 4
    assert go([table])
    assert len(trained) == 8
    assert go([figure], seeds=1)  # needs the skewed run of the table too
    # two more rates, one of which diverges in its first round
    assert len(trained) == 8 + 4 + 1
    assert {path.name for path in (tmp_path / "a" / "toy2020").iterdir()} == {"table1.json", "figure1.json"}
    tuned = summarise(figure, Results(tmp_path / "a"), 1)
    assert tuned.status == "measured"
    assert tuned.rows[1].ours.diverged == 1
    assert tuned.rows[1].ours.best == figure.rows[1].recipes[1]
    assert len(records(tmp_path, "a")) == 4


def test_results_files_alone_are_enough(toy, go, tmp_path, monkeypatch):
    """On another machine there are no run folders."""
    assert go(toy[:1])
    shutil.rmtree(tmp_path / "a-work")
    trained = count_rounds(monkeypatch)
    assert go(toy[:1])
    assert trained == []


def test_finished_runs_whose_results_were_not_written_are_taken_from_their_folders(toy, go, tmp_path, monkeypatch):
    assert go(toy[:1])
    before = records(tmp_path, "a")
    shutil.rmtree(tmp_path / "a")
    trained = count_rounds(monkeypatch)
    assert go(toy[:1])
    assert trained == []
    assert records(tmp_path, "a") == before


def test_further_seeds_join(toy, go, tmp_path):
    assert go(toy[:1], seeds=1)
    assert go(toy[:1], seeds=3)
    summary = summarise(toy[0], Results(tmp_path / "a"))
    assert [row.ours.n for row in summary.rows] == [3, 3, 3]
    assert all(row.ours.spread is not None for row in summary.rows)
    alone = askew.run(toy[0].rows[0].recipes[0].replace(seed=2)).accuracy
    mark = needs(toy[:1], Results(tmp_path), 3)[2].fingerprint
    assert records(tmp_path, "a")[mark, 2]["accuracy"][-1] == pytest.approx(alone, abs=1e-4)


def test_a_limit_stops_cleanly(toy, go, tmp_path):
    assert not go(toy, limit_s=1e-9)
    assert records(tmp_path, "a") == {}
    assert go(toy)


def test_quick_is_stored_apart(toy, go, tmp_path):
    assert go(toy[:1], scale="quick")
    assert list((tmp_path / "a" / "toy2020").iterdir()) == [tmp_path / "a" / "toy2020" / "quick"]
    assert summarise(toy[0], Results(tmp_path / "a")).status == "not run"
    quick = summarise(toy[0], Results(tmp_path / "a", "quick"))
    assert quick.status == "measured"
    assert {need.recipe.rounds for need in quick.needs} == {2}


def test_missing_data_are_missed_before_anything_is_trained(toy, go, tmp_path, monkeypatch):
    trained = count_rounds(monkeypatch)
    row = toy[0].rows[0]
    item = Item("toy2020", "late", "", (*toy[0].rows, Row("mnist", (row.recipes[0].replace(data="mnist()"),))),
                                     toy[0].quick)
    with pytest.raises(askew.AskewError, match="mnist: no folder"):
        go([item], data_dir=str(tmp_path))
    assert trained == []
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "a-work").exists()


def test_rates_come_from_finished_runs_else_from_a_trial(toy, go, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = toy[0].rows[0].recipes[0]
    wanted = needs(toy[:1], Results(tmp_path / "a"), 1)
    assert known_rates([Results(tmp_path / "a")], ["toy2020"], "cpu") == {}
    assert estimated_seconds(wanted, {}) is None
    tried = try_out(base, "cpu")
    assert known_rates([Results(tmp_path / "a")], ["toy2020"], "cpu") == {kind(base): pytest.approx(tried, rel=1e-3)}
    # 2 runs x 4 rounds x 1,437 images
    assert estimated_seconds(wanted, {kind(base): 1437.0}) == pytest.approx(8, rel=0.01)
    assert go(toy[:1])
    run = Results(tmp_path / "a").find("toy2020", wanted[0].base, 0)
    measured = known_rates([Results(tmp_path / "a")], ["toy2020"], "cpu")[kind(base)]
    assert run.together == 2
    # The fastest counts: beside other programs the seconds of two runs that train together differ.
    fastest = min(Results(tmp_path / "a").find("toy2020", need.base, 0).seconds for need in wanted)
    assert measured == pytest.approx(2 * 4 * 1437 / fastest, rel=0.01)
    assert estimated_seconds(needs(toy[:1], Results(tmp_path / "a"), 1), {}) == 0


def test_the_fastest_run_without_probes_gives_the_rate(toy, go, tmp_path):
    assert go(toy[:1])
    results = Results(tmp_path / "a")
    recipe = toy[0].rows[0].recipes[0]
    run = results.find("toy2020", needs(toy[:1], results, 1)[0].base, 0)
    plain = known_rates([results], ["toy2020"], "cpu")[kind(recipe)]
    slower = replace(run, seed=7, seconds=100 * run.seconds)
    probed = replace(run, seed=8, seconds=run.seconds / 100,
                     recipe=Recipe.from_toml(run.recipe).replace(probes="update_norms()").to_toml())
    results.add([(toy[0], slower), (toy[0], probed)])
    assert known_rates([results], ["toy2020"], "cpu")[kind(recipe)] == plain
    # Faster ones of our own, by as much as their seconds say: which of the toy's own runs was the fastest is chance.
    rates = []
    for seed, share in ((9, 4), (10, 8)):
        results.add([(toy[0], replace(run, seed=seed, seconds=run.seconds / share))])
        rates.append(known_rates([results], ["toy2020"], "cpu")[kind(recipe)])
    assert plain < rates[0]
    assert rates[1] == pytest.approx(2 * rates[0], rel=1e-9)
