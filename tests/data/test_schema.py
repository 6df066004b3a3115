"""Tables that differ, encoded alike by a schema: inputs, categories and fills are those of the table that made it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch

from askew.core.columns import Columns
from askew.data import load, table
from askew.data.schema import SCHEMA, schema_text

Refused = Callable[[str], AbstractContextManager[None]]
HEAD = "age,ward,sex,ill\n"
POOLED = HEAD + "30,heart,f,yes\n50,lung,m,no\n,heart,f,yes\n40,eye,,no\n40,heart,m,yes\n" * 4
WHOLE = HEAD + "1,heart,f,yes\n2,eye,m,no\n" * 2


@pytest.fixture
def schema(tmp_path: Path) -> Columns:
    (tmp_path / "pooled.csv").write_text(POOLED)
    columns = table(str(tmp_path / "pooled.csv"), label="ill", missing="indicator").columns
    assert columns is not None
    (tmp_path / SCHEMA).write_text(schema_text(columns))
    return columns


def written(folder: Path, text: str) -> str:
    (folder / "visits.csv").write_text(text)
    return str(folder / "visits.csv")


def test_a_table_that_lacks_categories_and_has_other_gaps_has_the_same_inputs(tmp_path: Path, schema: Columns) -> None:
    """Its columns stand in another order, one is nobody else's, numbers have a comma: none of that is in the inputs."""
    assert schema.inputs == ["age", "age is empty", "ward=eye", "ward=heart", "ward=lung", "sex=f", "sex=m",
                             "sex is empty"]
    path = written(tmp_path, "ill;sex;note;ward;age\n" + "yes;m;x;lung;61,5\nno;;y;;\n" * 5)
    data = load(f"table({path!r}, label='ill', like={str(tmp_path / SCHEMA)!r}, decimal=',')")
    assert data.columns is not None
    assert data.columns.inputs == schema.inputs
    rows = {tuple(row) for row in torch.cat([data.train.x, data.test.x]).tolist()}
    mean = schema.features[0].fill
    # ward has no gap in the pooled table: its most frequent category stands for one
    assert rows == {(61.5, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0), (mean, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)}


def test_nothing_of_the_table_itself_is_measured(tmp_path: Path, schema: Columns) -> None:
    path = written(tmp_path, HEAD + "" + "1000,heart,f,yes\n,heart,f,no\n" * 5)
    data = table(path, label="ill", like=schema)
    assert data.train.x[:, 0].unique().tolist() == [schema.features[0].fill, 1000.0]


@pytest.mark.parametrize(("rows", "arguments", "message"), [
    ("age,sex,ill\n1,f,yes\n1,m,yes\n", {}, "no column 'ward', which the schema names"),
    (WHOLE.replace("eye", "burns", 1), {},
     "column 'ward' holds 'burns' in row 2, which is none of the schema's categories: mend it, or say unknown='none'"),
    (WHOLE.replace("2", "old", 1), {}, "column 'age' holds 'old' in row 2; it must hold finite"),
    (WHOLE, {"drop": ["age"]}, "drop says of column 'age' something else"),
    (WHOLE, {"features": ["age"]}, "features says of column "),
    (WHOLE, {"categories": ["age"]}, "categories says of column 'age'"),
    (WHOLE, {"text": "ward"}, "text says of column 'ward'"),
    (WHOLE.replace("no", "", 1), {}, "column 'ill' has no value in 1 of 4 rows"),
])
def test_what_the_schema_cannot_encode_is_refused(tmp_path: Path, schema: Columns, refused: Refused, rows: str,
                                                  arguments: dict[str, list[str]], message: str) -> None:
    with refused(message):
        table(written(tmp_path, rows), label="ill", like=schema, **arguments)  # type: ignore[arg-type]


def test_arguments_that_say_the_same_are_no_harm(tmp_path: Path, schema: Columns) -> None:
    """What a person copies from the recipe of the laboratory."""
    path = written(tmp_path, "patient," + POOLED.replace("\n", "\np1,").removesuffix("p1,"))
    data = table(path, label="ill", drop=["patient"], missing="indicator", categories=["ward"], like=schema)
    assert data.columns is not None
    assert data.columns.features == schema.features


def test_a_category_of_its_own_may_count_as_none(tmp_path: Path, schema: Columns) -> None:
    path = written(tmp_path, HEAD + "" + "1,burns,f,yes\n2,burns,m,no\n" * 5)
    data = table(path, label="ill", like=schema, unknown="none")
    assert schema.inputs[2:5] == ["ward=eye", "ward=heart", "ward=lung"]
    assert data.train.x[:, 2:5].sum() == 0


def test_rows_are_dropped_where_the_schema_or_the_table_says_so(tmp_path: Path, schema: Columns,
                                                                refused: Refused) -> None:
    rows = HEAD + ",heart,f,yes\n" + "1,heart,f,yes\n2,eye,m,no\n" * 5
    assert len(table(written(tmp_path, rows), label="ill", like=schema).train) == 9
    assert len(table(written(tmp_path, rows), label="ill", like=schema, missing="drop").train) == 8
    with refused("column 'ward' holds 'burns' in row 3, "):  # of the file, whatever was dropped before
        table(written(tmp_path, rows.replace("eye", "burns", 1)), label="ill", like=schema, missing="drop")
    (tmp_path / "whole.csv").write_text(POOLED.replace("\n,", "\n40,").replace("eye,,", "eye,f,"))
    strict = table(str(tmp_path / "whole.csv"), label="ill").columns
    with refused(r"column 'age' has no value in 1 of 11 rows \(the first: row 1\); the schema has nothing to"):
        table(written(tmp_path, rows), label="ill", like=strict)


def test_a_schema_cannot_fill_the_memory(tmp_path: Path, schema: Columns, refused: Refused,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askew.data.schema.MOST_CELLS", 19)
    with refused("5 categories of the schema over 4 rows would take 0.0 GB; make a schema with fewer"):
        table(written(tmp_path, WHOLE), label="ill", like=schema)


def test_texts_have_the_vocabulary_of_the_schema(tmp_path: Path) -> None:
    (tmp_path / "pooled.csv").write_text("note,urgent\n" + "no pain,no\npain,yes\n" * 5)
    schema = table(str(tmp_path / "pooled.csv"), label="urgent", text="note", length=3).columns
    path = written(tmp_path, "note,urgent\n" + "fever and pain,yes\nno,no\n" * 5)
    data = table(path, label="urgent", like=schema)
    assert {tuple(row) for row in data.train.x.tolist()} == {(1, 1, 2), (3, 0, 0)}


@pytest.mark.parametrize(("change", "message"), [
    (lambda known: known | {"format": 9}, "it was written by a newer version of askew"),
    (lambda known: known | {"features": []}, "it names no column for the inputs"),
    (lambda known: known | {"code": "print()"}, "table: unknown key 'code'"),
    (lambda known: [known], "table must be an object"),
    (lambda known: known | {"features": [{"name": "age", "fill": "x"}]}, "column 'age': 'x' cannot stand for "),
])
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, schema: Columns, refused: Refused,
                                             change: Callable[[dict[str, object]], object], message: str) -> None:
    file = tmp_path / SCHEMA
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with refused(f"'{file}' is no schema: {message}"):
        table(str(tmp_path / "pooled.csv"), label="ill", like=str(file))
