"""The page's numbers and words, and what it refuses, without a browser."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import askew
from askew.cli.app import app, main
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.report.page import write_page
from askew.report.page.blocks import COLOURS, Choice, Facts, Figure, Section, Table, Text
from askew.report.page.collect import collect
from askew.report.page.evaluation import problem_of
from askew.report.page.histogram import histogram
from askew.report.page.labels import labels
from askew.report.page.write import HERE, sections
from askew.runs.folders import PAGE
from askew.runs.run_folder import RunFolder


def blocks_in(blocks: Any) -> Iterator[Any]:
    for block in blocks:
        yield block
        if isinstance(block, Choice):
            for _, inner in block.options:
                yield from blocks_in(inner)


def section(folder: Path | list[Path], name: str) -> Section:
    return next(one for one in sections(collect(folder if isinstance(folder, list) else [folder])) if one.name == name)


def first(found: Section, kind: type[Any]) -> Any:
    return next(block for block in blocks_in(found.blocks) if isinstance(block, kind))


def words(found: Section) -> str:
    return " ".join(block.text for block in blocks_in(found.blocks) if isinstance(block, Text))


@pytest.fixture
def copied(runs: Any, tmp_path: Path) -> Path:
    """A run of the sweep that a test may change."""
    return Path(shutil.copytree(runs.sweep / "000", tmp_path / "run"))


def test_the_table_has_the_mean_and_spread_of_the_last_round(runs: Any) -> None:
    table = first(section(runs.sweep, "overview"), Table)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"sgd.lr=0.1", "sgd.lr=0.3"}
    last = [RunFolder.open(runs.sweep / name).records()[-1]["accuracy"] for name in ("002", "003")]
    mean, spread = 100 * np.mean(last), 100 * np.std(last, ddof=1)
    assert rows["sgd.lr=0.3"]["#Accuracy"] == f"{mean:.1f} ± {spread:.1f}%"
    assert rows["sgd.lr=0.3"]["#Seeds"] == "2"


def test_a_band_is_one_standard_deviation_to_either_side(runs: Any) -> None:
    drawn = first(section(runs.sweep, "curves"), Figure)
    band, mean = drawn.data[:2]
    values = np.array([[r["accuracy"] for r in RunFolder.open(runs.sweep / name).records()] for name in ("000", "001")])
    assert mean["x"] == [1, 2, 3]
    np.testing.assert_allclose(mean["y"], values.mean(axis=0))
    np.testing.assert_allclose(band["y"][:3], values.mean(axis=0) + values.std(axis=0, ddof=1))
    np.testing.assert_allclose(band["y"][3:], (values.mean(axis=0) - values.std(axis=0, ddof=1))[::-1])


def test_the_first_screen_says_how_good_on_what_how_skewed_and_who_is_last(runs: Any) -> None:
    facts = {fact.title: fact for fact in first(section(runs.sweep / "000", "overview"), Facts).facts}
    evaluation = json.loads((runs.sweep / "000" / "evaluation.json").read_text())
    clients = evaluation["clients"]
    assert facts["Accuracy"].value == f"{100 * evaluation['measures']['accuracy']:.1f}%"
    assert "on the whole test set (360 examples)" in facts["Accuracy"].about
    assert facts["Skew (mean EMD)"].value == f"{evaluation['skew']['mean_emd']:.2f}"
    last = int(np.argmin(clients["score"]))
    assert f"client {last} with {100 * clients['score'][last]:.1f}%" in facts["Left behind"].about


def test_who_is_left_behind_is_in_order_and_explained(runs: Any) -> None:
    table = first(section(runs.sweep / "000", "clients"), Table)
    clients = json.loads((runs.sweep / "000" / "evaluation.json").read_text())["clients"]
    order = np.argsort(clients["score"], kind="stable")[:3]
    assert [row[0] for row in table.rows] == [f"client {k}" for k in order]
    assert [row[2] for row in table.rows] == [str(clients["examples"][k]) for k in order]


def test_a_comparison_has_every_section(runs: Any) -> None:
    report = collect([runs.comparison])
    assert [one.name for one in sections(report)] == [
        "overview", "curves", "measures", "clients", "classes", "population", "models", "updates", "bytes", "dropped",
        "about"]
    assert len(report.series) == 3
    assert all(len(series.runs) == 2 for series in report.series)


def test_models_stand_under_the_one_they_were_cloned_from(runs: Any) -> None:
    found = section(runs.comparison, "models")
    models = json.loads(next(runs.comparison.glob("fedcd*-seed0/evaluation.json")).read_text())["models"]
    rows = {row[0]: row for row in first(found, Table).rows}
    assert set(rows) == set(models)
    assert {name: row[1] for name, row in rows.items()} == {
        name: "–" if model["parent"] is None else str(model["parent"]) for name, model in models.items()}


def test_what_was_left_out_adds_up(runs: Any) -> None:
    folder = next(runs.comparison.glob("fedcd*-seed0"))
    count = sum(record["dropped"].get("dropped_out", 0) for record in RunFolder.open(folder).records())
    found = section(folder, "dropped")
    assert first(found, Table).rows[0][:2] == ["dropped out", str(count)]
    assert sum(first(found, Figure).data[0]["y"]) == count


def test_bytes_are_those_sent_so_far(runs: Any) -> None:
    records = RunFolder.open(runs.sweep / "000").records()
    [drawn] = first(section(runs.sweep / "000", "bytes"), Figure).data
    np.testing.assert_allclose(drawn["x"], np.cumsum([r["bytes_up"] + r["bytes_down"] for r in records]) / 1e6)


def test_settings_are_drawn_over_their_values(runs: Any) -> None:
    drawn = first(section(runs.sweep, "settings"), Figure)
    assert drawn.data[0]["x"] == [0.1, 0.3]
    assert drawn.layout["xaxis"]["title"]["text"] == "sgd.lr"


def test_a_result_in_memory_is_shown_too(tmp_path: Path) -> None:
    result = askew.run(Recipe(rounds=1, model="mlp(hidden=[2])"))
    assert write_page([result], tmp_path / "a.html") == tmp_path / "a.html"
    assert "Client by client" in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("label", "targets", "objective", "absent", "measure"), [
    ("'y'", "numbers", "mean_squared_error()", {"classes", "population"}, "#R2"),
    ("['p', 'q']", "labels", "binary_cross_entropy()", {"population"}, "#Exact match")])
def test_other_tasks_have_pages_too(label: str, targets: str, objective: str, absent: set[str], measure: str,
                                    tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 7 / 3},{i % 2},{int(i % 7 > 3)},{i % 4}" for i in range(80)]
    (tmp_path / "t.csv").write_text("a,y,p,q,site\n" + "\n".join(rows) + "\n")
    data = f"table(path={str(tmp_path / 't.csv')!r}, label={label}, client='site', features=['a'], targets={targets!r})"
    result = askew.run(Recipe(data=data, population="natural()", objective=objective, rounds=2))
    found = {one.name: one for one in sections(collect([result]))}
    assert {"overview", "curves", "measures", "clients", "bytes"} <= set(found)
    assert not absent & set(found)
    assert measure in first(found["measures"], Table).columns
    assert first(found["clients"], Table).rows[0][0].startswith("client ")


def test_a_run_without_evaluation_leaves_out_what_needs_one(copied: Path) -> None:
    (copied / "evaluation.json").unlink()
    for name in ("clients", "classes", "population"):
        assert "none of these runs has one" in words(section(copied, name))
    assert first(section(copied, "curves"), Figure).data


def test_a_run_that_has_not_ended_is_shown_as_such(copied: Path) -> None:
    for name in ("summary.json", "evaluation.json"):
        (copied / name).unlink()
    lines = (copied / "metrics.jsonl").read_text().splitlines()[:2]
    (copied / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert "stopped or still running, after 2 of 3 rounds" in words(section(copied, "overview"))


def test_the_same_run_again_is_no_further_seed(runs: Any, copied: Path) -> None:
    report = collect([runs.sweep / "000", copied])
    assert [len(series.runs) for series in report.series] == [1, 1]
    assert [series.label for series in report.series] == ["fedavg (1)", "fedavg (2)"]


@pytest.mark.parametrize(("recipes", "expected"), [
    ([Recipe(name="a"), Recipe(name="b")], ["a", "b"]),
    ([Recipe(name="a", rounds=2), Recipe(name="a", rounds=3)], ["rounds=2", "rounds=3"]),
    ([Recipe(name="a"), Recipe(name="b"), Recipe(name="b", epochs=2)], ["a", "b: epochs=1", "b: epochs=2"]),
    ([Recipe(), Recipe(population="iid(clients=3)")], ["population=shards, shards.clients=10, shards.shards_per_cli…",
                                                       "population=iid, iid.clients=3"]),
    ([Recipe(client="sgd(lr=decay(start=1, factor=0.5))"), Recipe(client="sgd(lr=decay(start=2, factor=0.5))")],
     ["decay.start=1", "decay.start=2"]),
])
def test_labels_say_what_differs(recipes: list[Recipe], expected: list[str]) -> None:
    assert labels(recipes) == expected


def _newer(folder: Path) -> None:
    (folder / "askew.json").write_text('{"askew": "run", "format": 99}')


def _newer_evaluation(folder: Path) -> None:
    (folder / "evaluation.json").write_text('{"format": 99}')


def _no_rounds(folder: Path) -> None:
    (folder / "metrics.jsonl").write_text("")


def _unknown_key(folder: Path) -> None:
    (folder / "recipe.toml").write_text((folder / "recipe.toml").read_text() + "colour = 3\n")


def _no_run(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _gone(folder: Path) -> None:
    shutil.rmtree(folder)


def _damaged(folder: Path) -> None:
    (folder / "evaluation.json").write_text('{"format": 1, "task": 3}')


@pytest.mark.parametrize(("change", "message"), [
    (_newer, "written by a newer version of askew"), (_newer_evaluation, "written by a newer version of askew"),
    (_no_rounds, "has no rounds to show yet"), (_unknown_key, "unknown key 'colour'"),
    (_no_run, "holds no run of askew"), (_gone, "is no folder"), (_damaged, "`task` does not have the form")])
def test_bad_input_is_one_line_and_nothing_is_written(change: Any, message: str, copied: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    change(copied)
    monkeypatch.setattr("sys.argv", ["askew", "report", str(copied), "--out", str(tmp_path / "p.html")])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in said
    assert str(copied) in said
    assert said.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"run"}


@pytest.mark.parametrize(("stopped", "said"), [
    ({"stopped": "round 1: the update of client 0 is not finite"}, "diverged"),
    ({"stopped": "failed", "failed": "no room"}, "failed"),
    ({"stopped": "interrupted"}, "not begun"), ({}, "not begun")])
def test_a_run_that_broke_off_in_its_first_round_is_not_waited_for(stopped: dict[str, str], said: str, copied: Path,
                                                                   runs: Any, tmp_path: Path) -> None:
    (copied / "metrics.jsonl").write_text("")
    (copied / "summary.json").write_text(json.dumps(stopped))
    with pytest.raises(AskewError, match="wait for" if said == "not begun" else f"has no rounds to show: it {said}: "):
        collect([copied])
    sweep = tmp_path / "sweep"
    shutil.copytree(runs.sweep, sweep)
    shutil.copytree(copied, sweep / "odd")
    assert f"no round of them is done: odd ({said})." in words(section(sweep, "overview"))
    for folder in sweep.glob("0*"):
        shutil.rmtree(folder)
    with pytest.raises(AskewError, match=rf"nothing to report, no run has a round: odd \({said}\)"):
        collect([sweep])


@pytest.mark.parametrize("kept", ["folder", "memory"])
def test_a_run_that_held_out_examples_ended_says_so(kept: str, tmp_path: Path) -> None:
    recipe = Recipe(population="iid(clients=3) + validation(0.1)", client="sgd(lr=1e-9)", rounds=9,
                    stop_after_no_gain=2)
    result = askew.run(recipe, out=tmp_path / "run" if kept == "folder" else None)
    [overview] = [one for one in sections(collect([result])) if one.name == "overview"]
    assert result.stopped_early
    assert f"stopped early, after 3 of 9 rounds: {result.stopped_early}" in words(overview)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 50, 5000])
def test_marks_of_few_clients_are_whole_numbers(most: int) -> None:
    height = histogram(np.repeat(0.5, most), 0.0, 1.0, "score", ".1%").layout["yaxis"]
    assert height.get("dtick") == (1 if most < 5 else None)  # one mark each; else plotly's own, which are whole there


def test_runs_of_different_tasks_do_not_stand_in_one_report(runs: Any) -> None:
    other = next(runs.comparison.glob("fedcd*-seed0"))
    with pytest.raises(AskewError, match=r"runs of different tasks .* write a page for each"):
        collect([runs.sweep / "000", other])


def test_the_command_writes_beside_the_run_and_keeps_what_is_there(copied: Path) -> None:
    said = CliRunner().invoke(app, ["report", str(copied)])
    assert said.output == f"page: {copied / PAGE}\n"
    again = CliRunner().invoke(app, ["report", str(copied)])
    assert "exists already; name another file, or add --overwrite" in str(again.exception)
    assert CliRunner().invoke(app, ["report", str(copied), "--overwrite", "--json"]).exit_code == 0
    refused = CliRunner().invoke(app, ["report", str(copied), "--out", str(copied / "a.pdf")])
    assert "ends in .html" in str(refused.exception)
    RunFolder.open(copied).clear()
    assert not (copied / PAGE).exists()


def test_several_runs_have_their_page_where_they_lie(runs: Any, tmp_path: Path) -> None:
    for name in ("000", "002"):
        shutil.copytree(runs.sweep / name, tmp_path / name)
    assert CliRunner().invoke(app, ["report", str(tmp_path / "000"), str(tmp_path / "002")]).exit_code == 0
    assert (tmp_path / PAGE).is_file()


def test_the_page_asks_for_nothing_from_elsewhere(runs: Any, tmp_path: Path) -> None:
    text = write_page([runs.comparison], tmp_path / "p.html").read_text(encoding="utf-8")
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # plotly's own text has addresses in it
    assert not re.search(r"<(?:link|iframe|object|embed|base)\b|\bsrc=|url\(|@import", ours.partition("<main>")[0])
    assert "default-src 'none'" in ours
    assert len(text) < 10e6


def test_an_evaluation_of_every_task_passes() -> None:
    for task in ("classification", "regression", "multilabel", "tokens", "other"):
        assert problem_of({"format": 1, "task": task, "higher_is_better": True, "judged_on": "x", "measures": {},
                           "classes": None, "by_class": None, "confusion": None, "clients": None, "models": {},
                           "skew": None}) is None


def palettes() -> list[tuple[str, dict[str, str]]]:
    css = (HERE / "style.css").read_text(encoding="utf-8")
    return [(name, dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)))
            for name, block in zip(("light", "dark"), re.findall(r":root[^{]*\{([^}]*)\}", css), strict=True)]


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG 2.2: from 1 to 21."""
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# Machado, Oliveira and Fernandes 2009, severity 1: what people without one kind of cone see, in linear RGB.
SEEN = {"all": np.eye(3),
        "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
        "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                            [-0.011820, 0.042940, 0.968881]])}


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Björn Ottosson 2020: a space in which distance is difference to the eye."""
    lms = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                    [0.0883024619, 0.2817188376, 0.6299787005]]) @ np.clip(rgb, 0, 1)
    return np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                     [0.0259040371, 0.7827717662, -0.8086757660]]) @ np.cbrt(lms)


@pytest.mark.parametrize(("theme", "colours"), palettes())
def test_colours_can_be_read_and_told_apart(theme: str, colours: dict[str, str]) -> None:
    assert contrast(colours["ink"], colours["paper"]) >= 7
    assert contrast(colours["soft"], colours["paper"]) >= 4.5
    assert contrast(colours["link"], colours["paper"]) >= 4.5
    assert contrast(colours["warn"], colours["warn-wash"]) >= 4.5
    lines = [colours[f"c{i}"] for i in range(COLOURS)]
    assert all(contrast(line, colours["paper"]) >= 3 for line in lines)
    for who, eye in SEEN.items():
        apart = {(i, j): math.dist(oklab(eye @ linear(lines[i])), oklab(eye @ linear(lines[j])))
                 for i in range(COLOURS) for j in range(i)}
        close = min(apart, key=apart.__getitem__)
        assert apart[close] >= (0.1 if who == "all" else 0.08), (theme, who, close, apart[close])
