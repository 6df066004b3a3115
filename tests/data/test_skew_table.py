"""Counts from CSV files as people write them, and the place of what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from askew.core.errors import AskewError
from askew.data.skew_table import CountsTable, read_counts


def read(folder: Path, text: str) -> CountsTable:
    file = folder / "counts.csv"
    file.write_bytes(text.encode())
    return read_counts(file)


@pytest.mark.parametrize(("text", "clients", "classes"), [
    ("1,2\n3,4\n", ["0", "1"], ["0", "1"]),
    ("cat,dog\n1,2\n3,4\n", ["0", "1"], ["cat", "dog"]),
    ("client,cat,dog\nA,1,2\nB,3,4\n", ["A", "B"], ["cat", "dog"]),
    ("A,1,2\nB,3,4\n", ["A", "B"], ["0", "1"]),
    ("site;cat;dog\r\nA;1;2\r\nB;3;4\r\n", ["A", "B"], ["cat", "dog"]),
    ("id\tcat\tdog\n7\t1\t2\n9\t3\t4\n", ["7", "9"], ["cat", "dog"]),
    (",0,1\n0,1,2\n1,3,4\n", ["0", "1"], ["0", "1"]),  # pandas, with its index
    ("client,0,1\n10,1,2\n11,3,4\n", ["10", "11"], ["0", "1"]),
    ("\ufeffclient,cat,dog\n\"Ward, 3\",1,2\n\nB,3.0, 4 \n", ["Ward, 3", "B"], ["cat", "dog"]),
])
def test_all_usual_layouts(tmp_path: Path, text: str, clients: list[str], classes: list[str]) -> None:
    table = read(tmp_path, text)
    assert table.counts.tolist() == [[1, 2], [3, 4]]
    assert table.clients == clients
    assert table.classes == classes


def test_a_first_row_that_counts_up_is_a_header(tmp_path: Path) -> None:
    assert read(tmp_path, "0,1,2\n5,6,7\n").counts.tolist() == [[5, 6, 7]]
    assert read(tmp_path, "1,2,3\n5,6,7\n").counts.tolist() == [[5, 6, 7]]
    assert read(tmp_path, "0,1\n5,6\n").counts.tolist() == [[0, 1], [5, 6]]  # two numbers may well be counts


@pytest.mark.parametrize(("text", "says"), [
    ("client,cat,dog\nA,1,2\nB,-3,4\n", "row 3 ('B'), column 2 ('cat'): -3 is negative"),
    ("client,cat,dog\nA,1,x\n", "row 2 ('A'), column 3 ('dog'): 'x' is not a number"),
    ("1,2,3\n4,five,6\n", "row 2, column 2 ('2'): 'five' is not a number"),  # the first row is a header
    ("7,8,9\n4,five,6\n", "row 2, column 2 ('1'): 'five' is not a number"),
    ("4,five,6\n7,8,9\n", "row 1, column 2 ('1'): 'five' is not a number"),
    ("A,1,x\nB,3,4\n", "row 1 ('A'), column 3 ('1'): 'x' is not a number"),
    ("A,1,2\nB,3,\n", "row 2 ('B'), column 3 ('1'): '' is not a number"),
    ("A,1,2\nB,3,nan\n", "'nan' is not a number"),
    ("A,1,2\nB,3,inf\n", "'inf' is not a number"),
    ("A,1,2\nB,3,1e999\n", "row 2 ('B'), column 3 ('1'): 1e999 is too large"),
    ("A,1,2\nB,-1e999,3\n", "row 2 ('B'), column 2 ('0'): -1e999 is negative"),
    (f"A,1,2\nB,3,{'9' * 5000}\n", f"{'9' * 50} is too large"),
    ("A,1,1e13\nB,3,4\n", "1e13 is too large; write a number of examples, at most 1,000,000,000,000"),
    ("A,0.5,2\nB,3,4\n", "row 1 ('A'), column 2 ('0'): 0.5 is not a whole number"),
    ("A,1,2\nB,3\n", "row 2 has 2 cells, the first row has 3"),
    ("A,1,2\nB,0,0\n", "row 2 ('B') has no examples"),
    ("A,1\nB,2\n", "1 class columns; at least two"),
    ("", "is empty"),
    ("\n\n", "is empty"),
])
def test_mistakes_are_named_by_row_and_column(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AskewError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "says"), [
    ("client,a,b\nx,1,2\nx,3,4\n", "client 'x' is there 2 times; add its rows up"),
    ("client,a,a\nx,1,2\ny,3,4\n", "class 'a' is there 2 times; add its columns up"),
    ("client,a,b,Total\nx,1,2,3\ny,3,4,7\n", "column 'Total' holds the sums of the others, and is no class; leave it"),
    ("client,a,b\nx,1,2\ny,3,4\nTotal,4,6\n", "row 'Total' holds the sums of the others, and is no client; leave it"),
])
def test_sums_and_names_that_are_there_twice_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AskewError, match=says):
        read(tmp_path, text)


def test_a_class_may_be_called_total(tmp_path: Path) -> None:
    assert read(tmp_path, "client,partial,total,none\nx,1,2,3\ny,3,4,5\n").classes == ["partial", "total", "none"]


def test_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "photo.csv").write_bytes(b"\xff\xd8\xff\xe0\x00\x01")
    with pytest.raises(AskewError, match=r"is no CSV file of client x class counts.*not text in UTF-8"):
        read_counts(tmp_path / "photo.csv")
    with pytest.raises(AskewError, match="No such file or directory; name a CSV file of client x class counts"):
        read_counts(tmp_path / "missing.csv")
    with pytest.raises(AskewError, match="is a folder"):
        read_counts(tmp_path)
