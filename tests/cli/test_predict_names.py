"""`askew predict` keeps all columns apart, whatever the table calls its client and its label."""

import csv
import json
import sys

import pytest

import askew
from askew.cli.app import main

NAMES = ["row", "run", "file", "row_", "hospital"]


@pytest.mark.parametrize(("client", "label"), [(a, b) for a in NAMES for b in NAMES if a != b][::3])
def test_no_column_takes_the_place_of_another(client, label, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"h{i % 2},{i % 7},{'yn'[i % 3 == 0]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join([f"{client},a,{label}", *lines]) + "\n")
    recipe = askew.Recipe(data=f"table('t.csv', label='{label}', client='{client}')", population="natural()",
                          model="mlp(hidden=[2])", rounds=1)
    askew.run(recipe, out="trained")

    def predicted(*more):
        monkeypatch.setattr(sys, "argv", ["askew", "predict", "trained", "t.csv", *more])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    capsys.readouterr()
    header, *rows = csv.reader(predicted().splitlines())
    assert header[1:] == [client, label]
    assert len(set(header)) == 3
    assert [row[:2] for row in rows] == [[str(i + 1), f"h{i % 2}"] for i in range(30)]
    found = json.loads(predicted("--json"))
    assert len(found) == 5
    assert found[client] == [f"h{i % 2}" for i in range(30)]
    assert found[label] == [row[2] for row in rows]
    assert "trained" in found.values()
    assert "t.csv" in found.values()


def test_numbers_have_all_digits_that_the_model_gives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(["a,price", *["0,1234567.5"] * 30]) + "\n")
    askew.run(askew.Recipe(data="table('t.csv', label='price', targets='numbers')", population="iid(clients=2)",
                           model="mlp(hidden=[])", objective="mean_squared_error()", client="sgd(lr=0.4)", rounds=9),
              out="trained")
    (predicted,) = set(askew.load("trained").predict("t.csv").tolist())
    assert predicted == pytest.approx(1234567.5, abs=0.5)
    monkeypatch.setattr(sys, "argv", ["askew", "predict", "trained", "t.csv"])
    with pytest.raises(SystemExit):
        main()
    assert [float(row["price"]) for row in csv.DictReader(capsys.readouterr().out.splitlines())] == [predicted] * 30


@pytest.mark.parametrize("gap", ["", "?"])
def test_labels_that_are_whole_floats_are_right_beside_a_gap_too(gap, tmp_path, monkeypatch, capsys):
    """pandas writes a column of whole numbers with a gap as 1.0 and 0.0; the classes are 1 and 0."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{i % 2},{float(i % 2)}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["a,y", f"1,{gap}", *lines]) + "\n")
    askew.run(askew.Recipe(data="table('t.csv', label='y')", population="iid(clients=2)", model="mlp(hidden=[4])",
                           client="sgd(lr=1.0)", rounds=5), out="trained")
    assert "right in 30 of 30 rows" in predicted_aloud("t.csv", monkeypatch, capsys)
    assert f"right in 30 of {30 + len(gap)} rows" in predicted_aloud("new.csv", monkeypatch, capsys)


def test_truth_values_of_parquet_are_the_classes_that_they_were_trained_as(tmp_path, monkeypatch, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    parquet.write_table(arrow.table({"a": [0, 1] * 15, "y": [False, True] * 15}), "t.parquet")
    askew.run(askew.Recipe(data="table('t.parquet', label='y')", population="iid(clients=2)", model="mlp(hidden=[4])",
                           client="sgd(lr=1.0)", rounds=5), out="trained")
    assert "right in 30 of 30 rows" in predicted_aloud("t.parquet", monkeypatch, capsys)


def predicted_aloud(file, monkeypatch, capsys):
    """What `askew predict` says on stderr."""
    monkeypatch.setattr(sys, "argv", ["askew", "predict", "trained", file])
    with pytest.raises(SystemExit):
        main()
    return capsys.readouterr().err
