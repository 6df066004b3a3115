"""Tables as people have them: words, gaps, codes, dates, other separators; and how rows become inputs."""

from __future__ import annotations

import csv
import io
import itertools
import json
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import askew
from askew.core.columns import Columns, Text
from askew.data import table
from askew.data.rows import read_rows, rows_of
from askew.data.skew_table import count_rows

WARDS = ["heart", "lung", "eye"]
# Ten rows of each class; row i has age i, but for the gaps. The held-out rows are always the same.
ROWS = [{"site": "north" if i % 4 else "south", "age": str(i), "ward": WARDS[i % 3], "code": str(i % 2 + 7),
         "sick": "yes" if i < 10 else "no"} for i in range(20)]


def write(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    path.write_text(text.getvalue())
    return str(path)


def with_cells(**cells: dict[int, str]) -> list[dict[str, str]]:
    """The rows with other words in some cells: column -> row -> word."""
    return [{name: cells.get(name, {}).get(i, word) for name, word in row.items()} for i, row in enumerate(ROWS)]


def by_row(data: askew.Dataset) -> dict[int, list[float]]:
    """Inputs by the number in the column age, which comes first."""
    return {int(x[0]): x.tolist() for split in (data.train, data.test) for x in split.x}


def test_words_become_one_input_each(tmp_path: Path) -> None:
    data = table(write(tmp_path / "t.csv", ROWS), label="sick", client="site", categories=["code"])
    assert data.columns is not None
    assert data.columns.inputs == ["age", "ward=eye", "ward=heart", "ward=lung", "code=7", "code=8"]
    assert data.client_names == ("north", "south")
    found = by_row(data)
    for i in range(20):
        assert found[i] == [i, *(float(WARDS[i % 3] == w) for w in ("eye", "heart", "lung")), 1 - i % 2, i % 2]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_what_separates_cells_is_found(delimiter: str, tmp_path: Path) -> None:
    rows = [{**row, "a, note; of \t| signs": "x"} for row in ROWS]
    path = write(tmp_path / "t.csv", rows, delimiter)
    assert read_rows(path) == {name: tuple(row[name] for row in rows) for name in rows[0]}
    same = write(tmp_path / "plain.csv", rows)
    kept = {"label": "sick", "drop": ["a, note; of \t| signs"]}
    assert (table(path, **kept).train.x == table(same, **kept).train.x).all()  # type: ignore[arg-type]


def test_a_separator_and_a_decimal_comma_can_be_said(tmp_path: Path, refused: Any) -> None:
    rows = [{**row, "age": f"{row['age']},5"} for row in ROWS]
    path = write(tmp_path / "t.csv", rows, "^")
    with refused("row 1 has 2 values, the header 1 columns; if another sign separates its cells, say delimiter="):
        table(path, label="sick")
    with refused("column 'age' holds '0,5' in row 1; if that is a decimal comma, say decimal=','"):
        table(path, label="sick", delimiter="^")
    data = table(path, label="sick", delimiter="^", decimal=",", features=["age"])
    assert sorted(data.train.x[:, 0].tolist() + data.test.x[:, 0].tolist()) == [i + 0.5 for i in range(20)]
    assert data.columns is not None
    assert data.columns.delimiter == "^"
    with refused("delimiter must be one character"):
        table(path, label="sick", delimiter="ab")


@pytest.mark.parametrize(("written", "decimal"), [
    ("{},234", "."), ("{},234,567.8", "."), ("{} 234", "."), ("{}\u202f234", "."), ("{}'234.5", "."),
    ("{}.234", ","), ("{}.234,5", ","), ("{}.5", ",")])
def test_thousands_are_never_read_as_fractions(written: str, decimal: Any, tmp_path: Path, refused: Any) -> None:
    path = write(tmp_path / "t.csv", with_cells(age={i: written.format(i % 9 + 1) for i in range(20)}), ";")
    with refused("column 'age' holds .* in row 1; .*if it is a number, write it with no mark but the "):
        table(path, label="sick", decimal=decimal)
    with refused("column 'age' holds .* in row 1; targets must be numbers"):
        table(path, label="age", targets="numbers", decimal=decimal)


def test_means_and_categories_are_those_of_training_rows_alone(tmp_path: Path) -> None:
    """Whatever stands in the rows held out for the test changes nothing of how rows become inputs."""
    path = write(tmp_path / "t.csv", ROWS)
    held_out = {int(x[0]) for x in table(path, label="sick", features=["age"]).test.x}
    gaps = {i: "" for i in range(20) if i not in held_out and i % 5 == 0}
    plain = write(tmp_path / "plain.csv", with_cells(age=gaps, ward=gaps))
    large, strange = ({**gaps, **dict.fromkeys(held_out, word)} for word in ("1e6", "x"))
    odd = write(tmp_path / "odd.csv", with_cells(age=large, ward=strange))
    for missing in ("mean", "indicator"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            one, other = (table(p, label="sick", missing=missing) for p in (plain, odd))  # type: ignore[arg-type]
        assert one.columns == other.columns
        assert (one.train.x == other.train.x).all()
        assert ["only rows for the test have 'x'" in str(w.message) for w in said] == [True]
        known = [i for i in range(20) if i not in held_out and i not in gaps]
        assert one.columns is not None
        assert one.columns.features[1].fill == pytest.approx(np.mean(known))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("nothing", ["", " ", "NA", "n/a", "#N/A", "NaN", "null", "<NA>"])
def test_gaps(nothing: str, kind: str, tmp_path: Path, refused: Any) -> None:
    rows = with_cells(age={0: nothing, 7: nothing}, ward={5: nothing})
    path = write(tmp_path / "t.csv", rows)
    if kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        columns["age"] = [None if word == nothing else int(word) for word in columns["age"]]
        columns["ward"] = [None if word == nothing else word for word in columns["ward"]]
        path = str(tmp_path / "t.parquet")
        parquet.write_table(arrow.table(columns), path)
    kept: Any = {"label": "sick", "features": ["age", "ward"]}
    with refused("column 'age' has no value in 2 of 20 rows .the first: row 1., 'ward' in 1; say missing='mean'"):
        table(path, **kept)
    dropped = table(path, missing="drop", **kept)
    assert sorted(by_row(dropped)) == [i for i in range(20) if i not in (0, 5, 7)]
    filled, marked = (table(path, missing=missing, **kept) for missing in ("mean", "indicator"))
    assert marked.columns is not None
    assert marked.columns.inputs[:2] == ["age", "age is empty"]
    assert marked.columns.inputs[-1] == "ward is empty"
    both = [row for split in (marked.train, marked.test) for row in split.x.tolist()]
    assert sum(row[1] for row in both) == 2
    assert [row for row in both if row[-1]] == [[5, 0, 0, 0, 0, 1]]
    assert filled.columns is not None
    most = filled.columns.features[1].fill
    assert by_row(filled)[5] == [5, *(float(word == most) for word in ("eye", "heart", "lung"))]


def test_labels_and_clients_must_be_there(tmp_path: Path, refused: Any) -> None:
    path = write(tmp_path / "t.csv", with_cells(sick={3: ""}, site={4: "NA", 6: ""}))
    kept: Any = {"label": "sick", "client": "site"}
    for missing in ("refuse", "mean", "indicator"):
        with refused("column 'sick' has no value in 1 of 20 rows .the first: row 4., 'site' in 2; .*missing='drop'"):
            table(path, missing=missing, **kept)
    assert len(table(path, missing="drop", **kept).train) + len(table(path, missing="drop", **kept).test) == 17


BAD_COLUMNS = {
    "dates": ({"age": {i: f"2024-01-{i + 1:02}" for i in range(20)}}, "column 'age' holds '2024-01-01' in row 1: dates "
              r"and times .* leave them out with drop=\['age'\]"),
    "other dates": ({"age": {i: f"{i + 1}.1.2024" for i in range(20)}}, "holds '1.1.2024' in row 1: dates and times"),
    "dates with slashes": ({"age": {i: f"2024/01/{i + 1:02}" for i in range(20)}}, "holds '2024/01/01' in row 1: d"),
    "named months": ({"age": {i: f"{i + 1}-JAN-24" for i in range(20)}}, "holds '1-JAN-24' in row 1: dates and times"),
    "months first": ({"age": {i: f"March {i + 1}, 2024" for i in range(20)}}, "holds 'March 1, 2024' in row 1: dates"),
    "twelve hours": ({"age": {i: f"{i % 12}:30 PM" for i in range(20)}}, "holds '0:30 PM' in row 1: dates and times"),
    "times": ({"age": {i: f"10:{i + 10}" for i in range(20)}}, "column 'age' holds '10:10' in row 1: dates and times"),
    "a slip": ({"age": {6: "4o"}}, r"column 'age' holds '4o' in row 7, and numbers in most rows: mend it, or say "
               r"categories=\['age'\]"),
    "infinite": ({"age": {6: "inf"}}, "column 'age' holds 'inf' in row 7; numbers must be finite"),
    "empty": ({"age": dict.fromkeys(range(20), "")}, "column 'age' has no value in any training row; leave it out"),
}


@pytest.mark.parametrize(("cells", "message"), BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_columns_that_cannot_be_inputs_are_named(cells: Any, message: str, tmp_path: Path, refused: Any) -> None:
    path = write(tmp_path / "t.csv", with_cells(**cells))
    with refused(message):
        table(path, label="sick", missing="mean")
    assert table(path, label="sick", drop=["age"]).columns is not None


def test_rows_are_those_of_the_file_also_behind_dropped_ones(tmp_path: Path, refused: Any) -> None:
    path = write(tmp_path / "t.csv", with_cells(ward={2: ""}, age={6: "4o"}))
    with refused("'4o' in row 7"):
        table(path, label="sick", missing="drop")


def test_identifiers_and_dates_of_parquet_are_refused(tmp_path: Path, refused: Any) -> None:
    rows = [{**row, "patient": f"p{i}-{j}"} for j in range(5) for i, row in enumerate(ROWS)]
    with refused("column 'patient' has 80 different words in 80 training rows, such as 'p.*': an identifier or free "
                 "text; leave it out with drop=.'patient'., or learn from it alone with text='patient'"):
        table(write(tmp_path / "t.csv", rows), label="sick")
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = np.arange("2024-01-01", "2024-01-21", dtype="datetime64[D]")
    parquet.write_table(arrow.table({"day": days, "y": [0, 1] * 10}), tmp_path / "t.parquet")
    with refused("column 'day' holds .*2024.* in row 1: dates and times"):
        table(str(tmp_path / "t.parquet"), label="y")


def test_categories_that_would_fill_the_memory_are_refused(tmp_path: Path, refused: Any,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askew.data.features.MOST_CELLS", 50)
    with refused(r"5 categories over 20 rows would take 0.0 GB; leave columns out: drop=\['ward', ...\]"):
        table(write(tmp_path / "t.csv", ROWS), label="sick")


def forms(path: str) -> dict[str, Any]:
    """The same rows in every form that a table may have in memory."""
    rows = read_rows(path)
    plain = [dict(zip(rows, row, strict=True)) for row in zip(*(v or () for v in rows.values()), strict=True)]
    typed = [{name: int(word) if word.isdecimal() else word for name, word in row.items()} for row in plain]
    arrays = {name: np.array([row[name] for row in typed]) for name in rows}
    lists = {name: list(values or ()) for name, values in rows.items()}
    return {"words": plain, "numbers": typed, "arrays": arrays, "columns": lists, "a frame": Frame(arrays),
            "arrow": pytest.importorskip("pyarrow").table(arrays)}


class Frame:
    """The part of pandas' data frames that is used, for machines without that package."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]


def test_a_table_in_memory_is_that_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ROWS)
    columns = table(path, label="sick", client="site", categories=["code"]).columns
    assert columns is not None
    expected = columns.encode("t", {name: v for name, v in read_rows(path).items() if v is not None})
    for name, form in forms(path).items():
        rows = rows_of("t", form)
        assert rows is not None
        assert (columns.encode("t", {k: v for k, v in rows.items() if v is not None}) == expected).all(), name
    for no_table in (3, None, "x", np.zeros(3), [], [1, 2], object()):
        assert rows_of("t", no_table) is None


def test_columns_survive_a_file(tmp_path: Path) -> None:
    for missing, text in itertools.product(("mean", "indicator", "drop", "refuse"), (None, "ward")):
        columns = table(write(tmp_path / "t.csv", ROWS), label="sick", client="site", missing=missing,  # type: ignore[arg-type]
                        text=text).columns
        assert columns is not None
        assert Columns.from_mapping(json.loads(json.dumps(columns.as_mapping()))) == columns


def test_text_by_hand(tmp_path: Path) -> None:
    rows = [{"note": "Pain, and pain again" if i < 10 else "All well!", "y": str(int(i < 10))} for i in range(20)]
    data = table(write(tmp_path / "t.csv", rows), label="y", text="note", length=6, vocabulary=5)
    assert data.columns is not None
    # Eight of each in training: pain 16 times, all others 8, of which the first in the alphabet are kept: "!" and ",".
    assert data.columns.text == Text("note", ("pain", "!", ","), 6)
    assert {tuple(row) for row in data.train.x.tolist()} == {(2, 4, 1, 2, 1, 0), (1, 1, 3, 0, 0, 0)}
    assert data.train.x.dtype.is_floating_point is False


def test_rows_are_counted_without_a_look_at_other_columns(tmp_path: Path, refused: Any) -> None:
    path = write(tmp_path / "t.csv", with_cells(age=dict.fromkeys(range(20), "31.12.2024"), ward={1: ""}), ";")
    counts = count_rows(path, "sick", "site")
    assert (counts.clients, counts.classes) == (["north", "south"], ["no", "yes"])
    assert counts.counts.tolist() == [[8, 7], [2, 3]]
    gap = write(tmp_path / "gap.csv", with_cells(site={0: "", 4: "NA"}))
    with refused("column 'site' has no value in 2 of 20 rows .the first: row 1.; say --missing drop"):
        count_rows(gap, "sick", "site")
    assert count_rows(gap, "sick", "site", "drop").counts.tolist() == [[8, 7], [2, 1]]
    with refused("no column 'sit' of one value per row; did you mean 'site'"):
        count_rows(path, "sick", "sit")
    with refused("holds dates, which are no classes"):
        count_rows(path, "age", "site")
    with refused("name one column"):
        count_rows(path, "sick", "sick")


def test_whatever_stands_in_cells_is_a_table_or_one_line(tmp_path: Path) -> None:
    """Random tables of cells of many kinds: read, or refused in one line; what is read has no NaN, and comes back."""
    cells = ["", " ", "NA", "1", "-2.5", "1e3", "1e99", "inf", "a", "b", "ä, ö", "2024-01-01", "1,5", "None", "true",
             '"', "x" * 300, "٣", "0x10", "1_0"]
    taken, refusals = 0, []
    for case in range(300):
        draw = Random(f"cells {case}")
        kinds = [draw.choices(cells, k=draw.choice((1, 2, 3))) for _ in range(3)]
        rows = [{"a": draw.choice(kinds[0]), "b": draw.choice(kinds[1]), "site": draw.choice(kinds[2]),
                 "y": draw.choice("01")} for _ in range(draw.choice((2, 8, 30)))]
        path = write(tmp_path / "t.csv", rows, draw.choice(",;\t"))
        missing = draw.choice(("refuse", "mean", "indicator", "drop"))
        try:
            with warnings.catch_warnings(action="ignore"):
                data = table(path, label="y", client="site", missing=missing)  # type: ignore[arg-type]
        except askew.AskewError as error:
            refusals.append(str(error))
            continue
        taken += 1
        assert bool(data.train.x.isfinite().all()), case
        assert data.columns is not None
        assert data.train.x.shape[1] == len(data.columns.inputs), case
    assert not [message for message in refusals if "\n" in message]
    assert taken > 50  # neither all nor none
    assert len(refusals) > 50
