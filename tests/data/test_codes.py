"""Codes of hospitals and of diagnoses are names as they are written: 007 is not 7, and 1_2 is not 12."""

import pytest

import askew
from askew.data.skew_table import count_rows
from askew.data.table import table

CODES = {"leading zeros": ("000", "001", "002"), "zeros and none": ("01", "1", "10"), "underscores": ("1_1", "11", "2"),
         "signs": ("+5", "5", "-05"), "whole numbers": ("-3", "4", "10"), "other digits": ("٣", "3", "4"),
         "words": ("a", " b", "c "), "decimals": ("1.0", "1", "2")}


def write(path, client, label):
    lines = [f"{client[i % 3]},{i % 7},{label[i % 5 % 3]}" for i in range(60)]
    path.write_text("\n".join(["hospital,a,y", *lines]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("kind", CODES)
def test_every_client_is_found_again_under_the_name_that_the_table_has(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", CODES[kind], ("ill", "well", "so so"))
    names = {code.strip() for code in CODES[kind]}
    assert set(count_rows("t.csv", "y", "hospital").clients) == names
    recipe = askew.Recipe(data="table('t.csv', label='y', client='hospital')", population="natural()",
                          model="mlp(hidden=[2])", rounds=1)
    askew.run(askew.methods.fedper(recipe), out="run")
    model = askew.load("run")
    assert set(model.clients) == names
    by_row = model.predict_proba("t.csv")
    for client in range(3):
        alone = model.predict_proba([{"a": i % 7} for i in range(client, 60, 3)], client=CODES[kind][client].strip())
        assert by_row[client::3] == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize(("written", "classes"), [
    (("000", "001", "010"), ("000", "001", "010")), (("1_1", "11", "2"), ("11", "1_1", "2")),
    (("10", "9", "-1"), ("-1", "9", "10")), (("1.0", "2.0", "10.0"), ("1", "2", "10"))])
def test_labels_are_what_the_table_writes(written, classes, tmp_path):
    write(tmp_path / "t.csv", ("a", "b", "c"), written)
    assert table(str(tmp_path / "t.csv"), "y", "hospital").classes == classes
    assert tuple(count_rows(tmp_path / "t.csv", "y", "hospital").classes) == classes


def test_codes_with_underscores_are_no_numbers_among_the_inputs(tmp_path):
    write(tmp_path / "t.csv", ("1_1", "1_2", "1_3"), ("a", "b", "c"))
    data = table(str(tmp_path / "t.csv"), "y", drop=["a"])
    assert data.columns.inputs == ["hospital=1_1", "hospital=1_2", "hospital=1_3"]


def test_long_codes_in_parquet_stay_apart_beside_gaps(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    codes = [2**60 + 1, 2**60 + 3, None, 5] * 10
    parquet.write_table(arrow.table({"site": codes, "y": codes, "a": codes, "b": range(40)}), tmp_path / "t.parquet")
    data = table(str(tmp_path / "t.parquet"), "y", "site", missing="drop")
    assert data.classes == data.client_names == ("5", str(2**60 + 1), str(2**60 + 3))
    data = table(str(tmp_path / "t.parquet"), "b", targets="numbers", missing="drop", categories=["a", "site", "y"])
    assert data.columns.inputs[:3] == [f"site={code}" for code in (2**60 + 1, 2**60 + 3, 5)]


def test_truth_values_of_parquet_may_be_clients(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    parquet.write_table(arrow.table({"rural": [False, True] * 15, "a": range(30), "y": [0, 0, 1] * 10}), path)
    recipe = askew.Recipe(data=f"table({path!r}, label='y', client='rural')", population="natural()", rounds=1)
    askew.run(askew.methods.fedper(recipe), out=tmp_path / "run")
    model = askew.load(tmp_path / "run")
    assert model.clients == ("0", "1")
    assert model.predict_proba(path)[1::2] == pytest.approx(
        model.predict_proba([{"a": i} for i in range(1, 30, 2)], client=1), abs=1e-6)
