import tracemalloc

import numpy as np
import pytest

from askew.data import load, table

ROWS = 40
COLUMNS = {
    "age": np.arange(ROWS) + 0.5,
    "smokes": np.arange(ROWS) % 2,
    "hospital": np.array(["north", "south", "east", "west"])[np.arange(ROWS) % 4],
    "diagnosis": np.where(np.arange(ROWS) < 20, "well", "ill"),
}


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"visits.{request.param}"
    if request.param == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(dict(COLUMNS)), path)
    else:
        lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in zip(*COLUMNS.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_columns_become_inputs_labels_and_owners(file):
    data = load(f"table({file!r}, label='diagnosis', client='hospital')")
    assert data.name == "visits"
    assert data.classes == ("ill", "well")
    assert data.input_shape == (2,)
    assert (len(data.train), len(data.test)) == (32, 8)
    assert data.test.y.bincount().tolist() == [4, 4]
    row = (data.train.x[:, 0] - 0.5).long()
    assert data.train.x[:, 1].tolist() == (row % 2).tolist()
    assert data.train.y.tolist() == (row < 20).long().tolist()
    order = np.array([1, 2, 0, 3])  # north, south, east, west in the alphabet's order
    assert data.client_ids.tolist() == order[row % 4].tolist()
    assert len(data.test_client_ids) == 8


def test_chosen_features_and_fraction(file):
    data = table(file, label="smokes", features=["age"], test_fraction=0.5)
    assert data.input_shape == (1,)
    assert data.classes == ("0", "1")
    assert len(data.test) == 20
    assert data.client_ids is None


def test_bad_columns_are_refused(file, refused):
    with refused("no column 'diagnose'; did you mean 'diagnosis'"):
        table(file, label="diagnose")
    with refused("no column 'hospitals'; did you mean 'hospital'"):
        table(file, label="diagnosis", client="hospitals")
    with refused("no column 'weight'"):
        table(file, label="diagnosis", features=["weight"])
    with refused("label 'smokes' is also among the features"):
        table(file, label="smokes", features=["age", "smokes"])
    with refused("table 'visits|needs 'label'"):
        load(f"table({file!r})")


@pytest.mark.parametrize(("content", "message"), [
    ("", "0 lines"),
    ("a,b\n", "1 lines; a header line and at least one row"),
    ("a,a\n1,2\n", "column 'a' occurs twice"),
    ("a,b\n1,2\n3\n", "row 2 has 1 values, the header 2 columns"),
    ("a,b\n1,x\n,y\n", "column 'a' has no value in 1 of 2 rows .the first: row 2.; say missing="),
    ("a,b\n1,x\nnan,y\n", "column 'a' has no value in 1 of 2 rows"),
    ("a,b\n1,x\n1e99,x\n", "column 'a' holds '1e99' in row 2; numbers must be finite"),
    ("a,b\n1,x\n2,\n", "column 'b' has no value in 1 of 2 rows .*a row needs its label"),
    ("b\nx\ny\n", "no column is left for the inputs"),
    ("a,b\n1,x\n2,y\n", "none of 2 classes has two"),
], ids=["empty", "header only", "twice", "ragged", "gap", "nan", "overflow", "no label", "no features", "one each"])
def test_bad_csv_is_refused(tmp_path, refused, content, message):
    (tmp_path / "bad.csv").write_text(content)
    with refused(message):
        table(str(tmp_path / "bad.csv"), label="b")


def test_bad_files_are_refused(tmp_path, refused):
    for name in ("nowhere.csv", "nowhere.parquet"):
        with refused("nowhere"):
            table(name, label="b")
    (tmp_path / "text.parquet").write_text("hello")
    with refused("cannot be read as Parquet"):
        table(str(tmp_path / "text.parquet"), label="b")
    (tmp_path / "binary.csv").write_bytes(b"a,b\n\xff\xfe\x00,1\n")
    with refused("cannot be read as CSV in UTF-8 .*save it as CSV in UTF-8"):
        table(str(tmp_path / "binary.csv"), label="b")


def test_parquet_with_gaps_and_categories(tmp_path, refused):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    words = arrow.array(["u", "v", "u", "v"]).dictionary_encode()
    parquet.write_table(arrow.table({"a": [1, 2, 3, 4], "flag": [True, False, True, True], "y": words}), path)
    assert table(path, label="y", test_fraction=0.5).classes == ("u", "v")
    parquet.write_table(arrow.table({"a": [1, None, 3, 4], "y": [0, 0, 1, 1]}), path)
    with refused("column 'a' has no value in 1 of 4 rows"):
        table(path, label="y")
    parquet.write_table(arrow.table({"a": [1, 2, 3, 4], "y": [0, None, 1, 1]}), path)
    with refused("column 'y' has no value in 1 of 4 rows .the first: row 2."):
        table(path, label="y")
    parquet.write_table(arrow.table({"a": [[1, 2], [3]], "y": [0, 0]}), path)
    with refused("column 'a' holds lists or records; features must be numbers"):
        table(path, label="y")


def test_one_long_cell_does_not_make_all_long(tmp_path, refused):
    """As an array of numpy's words, 20,000 cells of 100,000 letters each would take 8 GB."""
    rows = [f"{i},{i % 2},n{i % 3}" for i in range(20_000)]
    for row, message in ((f"{'9' * 100_000},0,n0", "column 'a' holds '999"), (f"1,{'y' * 100_000},n0", None),
                         (f"1,0,{'n' * 100_000}", None)):
        (tmp_path / "long.csv").write_text("\n".join(["a,y,site", *rows, row]) + "\n")
        tracemalloc.start()
        if message:
            with refused(message):
                table(str(tmp_path / "long.csv"), label="y", client="site")
        else:
            table(str(tmp_path / "long.csv"), label="y", client="site")
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
        tracemalloc.stop()


def test_numbers_in_text_have_the_bits_that_numpy_gives_them(tmp_path):
    draw = np.random.default_rng(0)
    cells = [f"{value:.{digits}g}" for value in draw.normal(size=300) * 10.0 ** draw.integers(-30, 30, 300)
             for digits in (3, 9, 17)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *(f"{cell},{i % 2}" for i, cell in enumerate(cells))]) + "\n")
    data = table(str(tmp_path / "t.csv"), label="y")
    ours = np.sort(np.concatenate([data.train.x.numpy()[:, 0], data.test.x.numpy()[:, 0]]))
    assert ours.tobytes() == np.sort(np.asarray(cells).astype(np.float32)).tobytes()


def test_very_many_columns_are_no_matter(tmp_path, refused):
    names = [f"c{i}" for i in range(20_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 20_000) + "\n")
    with refused("no column .label.; "):
        table(str(tmp_path / "wide.csv"), label="label")
    (tmp_path / "wide.csv").write_text(",".join([*names, "c19999"]) + "\n" + ",".join("1" * 20_001) + "\n")
    with refused("column 'c19999' occurs twice"):
        table(str(tmp_path / "wide.csv"), label="c1")


@pytest.mark.parametrize("rows", [{"row_group_size": 3}, {}])
def test_parquet_words_with_gaps_and_twice_named_columns(tmp_path, refused, rows):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    words = ["u", "v", "w", "v", "u", "w", "u"]
    parquet.write_table(arrow.table({"a": range(7), "y": words, "b": [b"x", b"z"] * 3 + [b"x"]}), path, **rows)
    data = table(path, label="y", features=["a"], test_fraction=0.5)
    found = {int(x): data.classes[y] for split in (data.train, data.test)
             for x, y in zip(split.x[:, 0], split.y, strict=True)}
    assert [found[row] for row in range(7)] == words
    parquet.write_table(arrow.table({"a": range(7), "y": [*words[:6], None]}), path, **rows)
    with refused("column 'y' has no value in 1 of 7 rows .the first: row 7."):
        table(path, label="y")
    parquet.write_table(arrow.table([range(7), words, words], names=["a", "y", "y"]), path, **rows)
    with refused("column 'y' occurs twice"):
        table(path, label="y")


def test_a_parquet_bomb_is_refused_before_it_unpacks(tmp_path, refused, monkeypatch):
    """Rows by the million that are one value: some kilobytes, and as many words as one pleases."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    monkeypatch.setattr("askew.core.arrays.SMALL", 100_000)
    for column in (np.zeros(300_000), arrow.array(["word" * 10] * 300_000),
                   arrow.array([b"0123456789" * 5] * 300_000, arrow.binary(50))):
        parquet.write_table(arrow.table({"a": column, "y": np.zeros(300_000, np.int8)}), path, compression="zstd")
        with refused(r"would unpack to [\d,]+ bytes, more than .*write it without compression, or as CSV"):
            table(path, label="y")


def test_a_long_word_in_many_rows_is_there_once(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    words = arrow.DictionaryArray.from_arrays(arrow.array(np.arange(20_000) % 2, arrow.int32()),
                                              arrow.array(["u" * 100_000, "v" * 100_000]))
    parquet.write_table(arrow.table({"a": np.arange(20_000.0), "y": words}), path, store_schema=False)
    before = arrow.total_allocated_bytes()
    tracemalloc.start()
    data = table(path, label="y")
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    assert arrow.default_memory_pool().max_memory() - before < 200 * 2**20
    assert [len(name) for name in data.classes] == [100_000, 100_000]
