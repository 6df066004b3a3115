"""The hospital's case on the command line: a CSV file with words and gaps, diagnosed, trained on, and predicted."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import askew
from askew.cli.app import main

Run = Callable[..., tuple[int, str, str]]
RECIPE = """
data = "table('visits.csv', label='diagnosis', client='hospital', drop=['patient', 'admitted'])"
preprocess = ["normalise()"]
population = "natural()"
model = "mlp(hidden=[16])"
rounds = 12
"""
WARDS = ("heart", "lung", "surgery")


def visits(path: Path, rows: int = 400) -> None:
    """Who falls ill depends on age, ward and smoking; a twentieth of ages and wards are not known."""
    draw = Random(0)
    lines = [["patient", "admitted", "hospital", "age", "ward", "smokes", "diagnosis"]]
    for i in range(rows):
        hospital = draw.choices(("north", "south", "east"), (5, 3, 2))[0]
        age, ward, smokes = draw.randint(20, 90), draw.choice(WARDS), draw.choice(("yes", "no"))
        risk = (age - 55) / 12 + {"heart": 2, "lung": -1, "surgery": 0}[ward] + (smokes == "yes") + draw.gauss(0, 0.5)
        lines.append([f"p{i}", f"2024-03-{1 + i % 28:02}", hospital, "" if draw.random() < 0.05 else str(age),
                      "NA" if draw.random() < 0.05 else ward, smokes, "ill" if risk > 0.5 else "well"])
    path.write_text("\n".join(";".join(line) for line in lines) + "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    visits(folder / "visits.csv")
    (folder / "hospital.toml").write_text(RECIPE)
    return folder


@pytest.fixture
def cli(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def test_from_csv_to_prediction(cli: Run, place: Path) -> None:
    code, out, _ = cli("diagnose", "visits.csv", "--label", "diagnosis", "--client", "hospital", "--json")
    said = json.loads(out)
    assert (code, said["client_names"], said["class_names"]) == (0, ["east", "north", "south"], ["ill", "well"])
    assert sum(said["sizes"]) == 400
    shown = cli("diagnose", "visits.csv", "--label", "diagnosis", "--client", "hospital")[1]
    assert "\nhospital  examples" in shown
    assert "\ndiagnosis: 0 ill, 1 well\n" in shown
    drawn = cli("partition", "--scheme", "natural", "--data",
                "table('visits.csv', label='diagnosis', client='hospital', features=['smokes'])")[1]
    assert "\nhospital  examples" in drawn
    assert "\neast " in drawn
    code, _, err = cli("run", "hospital.toml", "--out", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "column 'age' has no value in" in err
    assert "--missing" in err
    assert not (place / "run").exists()
    code, out, _ = cli("run", "hospital.toml", "--missing", "indicator", "--set", "judge=global", "--out", "run",
                       "--json")
    reported = json.loads(out)["accuracy"]
    assert reported > 0.8

    # The rows that were held out, through askew.load ...
    recipe = askew.Recipe.from_toml((place / "run" / "recipe.toml").read_text())
    data = askew.data.load(recipe.data)
    truth = np.array(data.classes)[data.test.y]
    model = askew.load("run")
    assert model.clients == ("east", "north", "south")
    assert float((model.predict(data.test.x) == truth).mean()) == pytest.approx(reported)

    evaluation = json.loads((place / "run" / "evaluation.json").read_text())
    assert evaluation["clients"]["name"] == list(model.clients)
    assert evaluation["measures"]["accuracy"] == pytest.approx(reported)

    # ... in plain PyTorch, from the files alone ...
    about, weights = json.loads(Path("run/model.json").read_text()), load_file("run/model.safetensors")
    assert about["table"]["label"] == ["diagnosis"]
    assert about["table"]["client"] == "hospital"
    numbers = {name: torch.tensor(v) for name, v in about["preprocess"][0]["arguments"].items()}
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))  # age, 3 wards, 2 smokes, 2 marks of gaps
    network.load_state_dict({name.replace("fc1", "0").replace("fc2", "2"): v for name, v in weights.items()})
    plain = network((data.test.x - numbers["mean"]) / numbers["std"]).argmax(1).numpy()
    assert float((np.array(about["classes"])[plain] == truth).mean()) == pytest.approx(reported)

    # ... and all rows by the command line, with their clients, under the label's own name.
    code, _, err = cli("predict", "run", "visits.csv", "--out", "predicted.csv", "--proba")
    rows = list(csv.DictReader(io.StringIO((place / "predicted.csv").read_text())))
    assert list(rows[0]) == ["row", "hospital", "diagnosis", "diagnosis=ill", "diagnosis=well"]
    with open("visits.csv") as file:
        visited = list(csv.DictReader(file, delimiter=";"))
    right = sum(row["diagnosis"] == visit["diagnosis"] for row, visit in zip(rows, visited, strict=True))
    assert [row["hospital"] for row in rows] == [visit["hospital"] for visit in visited]
    assert f"diagnosis is right in {right} of 400 rows" in err
    assert [row["diagnosis"] for row in rows] == model.predict("visits.csv").tolist() == model.predict(visited).tolist()
    for row in rows:
        assert float(row["diagnosis=ill"]) + float(row["diagnosis=well"]) == pytest.approx(1, abs=1e-5)
    code, _, err = cli("predict", "run", "visits.csv", "--out", "predicted.csv")
    assert (code, "exists already; name another file, or add --overwrite" in err) == (2, True)


@pytest.mark.slow
def test_exported(cli: Run, place: Path) -> None:
    if not (place / "run").exists():
        cli("run", "hospital.toml", "--missing", "indicator", "--out", "run")
    code, out, err = cli("export", "run", "--torch", "model.pt2")
    assert (code, out, err) == (0, "written: model.pt2\n", "")
    model = askew.load("run")
    x = askew.data.load(askew.Recipe.from_toml(Path("run/recipe.toml").read_text()).data).test.x
    torch.testing.assert_close(torch.export.load("model.pt2").module()(x), model.module(x))
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    assert cli("export", "run", "--onnx", "model.onnx")[0] == 0
    session = runtime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    for some in (x, x[:1]):
        np.testing.assert_allclose(session.run(["outputs"], {"x": some.numpy()})[0], model.module(some).numpy(),
                                   rtol=1e-4, atol=1e-5)
    [props] = onnx.load("model.onnx").metadata_props
    assert json.loads(props.value)["classes"] == ["ill", "well"]
    there = sorted(path.name for path in place.iterdir())
    assert {name for name in there if "model" in name} == {"model.pt2", "model.onnx"}  # and nothing beside them
    for arguments, message in ((["--onnx", "model.onnx"], "'model.onnx' exists already"), ([], "name a file to write"),
                               (["--torch", "a.pt"], "must end in .pt2"), (["--onnx", "no/a.onnx"], "is no folder"),
                               (["--torch", "b.pt2", "--client", "nrth"], "unknown client 'nrth'; did you mean 'no")):
        code, _, err = cli("export", "run", *arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    assert sorted(path.name for path in place.iterdir()) == there


GOOD = {"hospital": "north", "age": "40", "ward": "heart", "smokes": "no"}


def break_table(draw: Random) -> tuple[list[dict[str, Any]], str]:
    """Rows for the model with one thing wrong, and what the answer must say."""
    rows: list[dict[str, Any]] = [dict(GOOD, age=str(draw.randint(20, 90)), ward=draw.choice(WARDS)) for _ in range(6)]
    at, column = draw.randrange(6), draw.choice(("age", "ward", "smokes"))
    way = draw.choice(("lacking", "further", "renamed", "unknown", "no number", "nothing"))
    if way in ("lacking", "renamed"):
        rows = [{(name + "_x" if way == "renamed" else name): v for name, v in row.items() if way == "renamed"
                 or name != column} for row in rows]
        return rows, "no column '"
    if way == "further":
        return [{**row, f"{column}2": "1"} for row in rows], "was not in the table that the model"
    if way == "unknown":
        column = draw.choice(("ward", "smokes"))
        rows[at][column] = draw.choice(("Heart", "kidney", "7", "yes no", "x" * 5000))
        return rows, f"column '{column}' holds .* in row {at + 1}, which no training row had"
    if way == "no number":
        rows[at]["age"] = draw.choice(("old", "4o", "inf", "1e99", "2024-01-01"))
        return rows, f"column 'age' holds .* in row {at + 1}; it must hold finite numbers"
    return [], "" if way != "nothing" else "a header line and at least one row are needed"


def test_tables_that_do_not_fit_are_one_line_and_nothing_is_written(cli: Run, place: Path) -> None:
    if not (place / "run").exists():
        cli("run", "hospital.toml", "--missing", "indicator", "--out", "run")
    for case in range(60):
        rows, message = break_table(Random(f"broken {case}"))
        names = list(rows[0]) if rows else list(GOOD)
        lines = [names, *([str(row[name]) for name in names] for row in rows)]
        (place / "broken.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
        code, out, err = cli("predict", "run", "broken.csv", "--out", "never.csv")
        assert (code, out, err.count("\n")) == (2, "", 1), (case, err)
        assert re.search(message, err), (case, err)
        assert not (place / "never.csv").exists()
    (place / "broken.csv").unlink()


def test_gaps_when_the_model_knows_none(cli: Run, place: Path, refused: Any) -> None:
    cli("run", "hospital.toml", "--missing", "drop", "--set", "rounds=1", "--out", "whole")
    model = askew.load("whole")
    with refused("column 'age' has no value in 1 of 2 rows .the first: row 2.; the model was trained on rows without"):
        model.predict([GOOD, {**GOOD, "age": None}])
    with refused("no column 'smokes', which the model needs"):
        model.predict([{name: v for name, v in GOOD.items() if name != "smokes"}])
    assert model.predict([GOOD, {**GOOD, "patient": "p0", "diagnosis": "?"}]).shape == (2,)


def test_each_row_has_the_model_of_its_client(cli: Run, place: Path, refused: Any) -> None:
    """FedPer and FedCD: rows that name their client are predicted with that one's model."""
    for method in ("fedper", "fedcd(milestones=[1])"):
        folder = method.partition("(")[0]
        cli("run", "hospital.toml", "--missing", "mean", "--method", method, "--set", "rounds=3", "--out", folder)
        model = askew.load(folder)
        rows = [dict(GOOD, hospital=name, age=age) for name in ("north", "south", "east") for age in (30, 60, 80)]
        together = model.predict_proba(rows)
        for name in ("north", "south", "east"):
            own = [i for i, row in enumerate(rows) if row["hospital"] == name]
            nameless = [{k: v for k, v in rows[i].items() if k != "hospital"} for i in own]
            alone = model.predict_proba(nameless, client=name)
            np.testing.assert_allclose(together[own], alone, rtol=1e-5)
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = arrow.table({column: [row[column] for row in rows] for column in rows[0]})
        parquet.write_table(table, f"{folder}.parquet")
        for same in (table, f"{folder}.parquet"):
            np.testing.assert_allclose(model.predict_proba(same), together, rtol=1e-5)
    assert askew.load("fedcd").predict([dict(GOOD, hospital="elsewhere")]).shape == (1,)
    with refused("row 1 is of client 'elsewhere', who has no model of its own; known: east, north, south"):
        askew.load("fedper").predict([dict(GOOD, hospital="elsewhere")])
    code, _, err = cli("predict", "fedper", "visits.csv", "--client", "elsewhere")
    assert (code, "unknown client 'elsewhere'" in err) == (2, True)
