"""Every way in which labels come in, and every kind of them: the right classes, or one line that says what is wrong."""

import math
import warnings

import numpy as np
import pytest
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.data import from_huggingface, from_torch_dataset
from askew.data.npz import npz
from askew.data.table import table

# Each kind six times over, so that the ways that split off a test set have enough of each class.
WHOLE = {
    "bool": np.array([False, True, True]), "int8": np.array([0, 2, 1], np.int8), "int16": np.array([0, 2, 1], np.int16),
    "int32": np.array([0, 2, 1], np.int32), "int64": np.array([0, 2, 1]), "uint8": np.array([0, 2, 1], np.uint8),
    "uint16": np.array([0, 2, 1], np.uint16), "uint32": np.array([0, 2, 1], np.uint32),
    "uint64": np.array([0, 2, 1], np.uint64), "float16": np.array([0, 2, 1], np.float16),
    "float32": np.array([0, 2, 1], np.float32), "float64": np.array([0.0, 2.0, 1.0]),
    "column": np.array([[0], [2], [1]]), "ten classes and more": np.array([0.0, 10.0, 2.0]),
}
REFUSED = {
    "fractions": np.array([0.0, 2.7, 1.0]), "nearly whole": np.array([0.0, 1.999, 1.0]),
    "nan": np.array([0.0, math.nan, 1.0]), "infinite": np.array([0.0, math.inf, 1.0]),
    "beyond 64 bits": np.array([0.0, 1e30, 1.0]), "complex": np.array([0, 2 + 1j, 1]), "one-hot": np.eye(3),
    "one-hot of integers": np.eye(3, dtype=np.int64), "cube": np.zeros((3, 1, 1), np.int64),
    "dates": np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "M8[D]"),
}


def inputs(y):
    return np.arange(2 * len(y), dtype=np.float32).reshape(-1, 2)


def as_tensors(y, tmp_path):
    return Dataset.from_tensors((torch.from_numpy(inputs(y)), torch.from_numpy(y)),
                                (torch.from_numpy(inputs(y)), torch.from_numpy(y)))


def as_arrays(y, tmp_path):
    return Dataset.from_tensors((inputs(y), y), (inputs(y), y))


def as_npz(y, tmp_path):
    np.savez(tmp_path / "own.npz", x_train=inputs(y), y_train=y, x_test=inputs(y), y_test=y)
    return npz(str(tmp_path / "own.npz"))


def as_one_npz(y, tmp_path):
    np.savez(tmp_path / "own.npz", x=inputs(y), y=y)
    return npz(str(tmp_path / "own.npz"))


def as_csv(y, tmp_path):
    if y.ndim != 1:
        pytest.skip("a column of text has one word per row")
    if y.dtype.kind in "bcM":
        pytest.skip("in a file of text these are words, and words are classes")
    rows = [f"{a},{b},{label}" for (a, b), label in zip(inputs(y).tolist(), y.tolist(), strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,y", *rows]))
    return table(str(tmp_path / "own.csv"), label="y")


def as_parquet(y, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if y.dtype.kind == "c" or y.dtype == np.float16 or y.ndim > 2:
        pytest.skip("Parquet has no such type")
    x = inputs(y)
    column = arrow.array(y if y.ndim == 1 else list(y))
    parquet.write_table(arrow.table({"a": x[:, 0], "b": x[:, 1], "y": column}), tmp_path / "own.parquet")
    return table(str(tmp_path / "own.parquet"), label="y")


def as_pairs_of(make):
    def build(y, tmp_path):
        pairs = [(torch.from_numpy(x), make(label)) for x, label in zip(inputs(y), y, strict=True)]
        return from_torch_dataset(pairs, pairs)

    return build


class Rows:
    """The part of `datasets.Dataset` that is used."""

    def __init__(self, features=None, **columns):
        self.columns, self.column_names, self.features = columns, list(columns), features or {}

    def select_columns(self, names):
        return Rows(**{name: self.columns[name] for name in names})

    def __getitem__(self, column):
        return self.columns[column]

    def __iter__(self):
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))


class Named:
    def __init__(self, count):
        self.names = [str(label) for label in range(count)]


def as_rows(y, tmp_path):
    rows = Rows(image=inputs(y).tolist(), label=y.tolist())
    return from_huggingface(rows, rows)


def as_rows_with_names(y, tmp_path):
    rows = Rows({"label": Named(11)}, image=inputs(y).tolist(), label=y.tolist())
    return from_huggingface(rows, rows)


WAYS = {
    "from_tensors": as_tensors, "from_tensors of arrays": as_arrays, "npz": as_npz, "npz to be split": as_one_npz,
    "csv": as_csv, "parquet": as_parquet,
    "torch data set of tensors": as_pairs_of(lambda label: torch.from_numpy(np.asarray(label))),
    "torch data set of arrays": as_pairs_of(lambda label: label),
    "torch data set of numbers": as_pairs_of(lambda label: label.tolist()), "hugging face": as_rows,
    "hugging face with names": as_rows_with_names,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_of_any_type_are_classes(kind, way, tmp_path):
    y = np.concatenate([WHOLE[kind]] * 6)
    if kind == "column" and way in ("parquet", "torch data set of arrays", "torch data set of numbers",
                                    "hugging face with names"):
        # Lists as labels.
        with pytest.raises(AskewError, match=r"not a whole number|whole numbers or words|vector of int64"):
            WAYS[way](y, tmp_path)
        return
    data = WAYS[way](y, tmp_path)
    for split in (data.train, data.test):
        assert split.y.dtype == torch.int64
        # The inputs tell which example it is: its class has the name that the label has.
        rows = [int(row[0]) // 2 for row in split.x.tolist()]
        assert [float(data.classes[label]) for label in split.y.tolist()] == [float(y.reshape(-1)[row]) for row in rows]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_class_is_refused_in_one_line(kind, way, tmp_path):
    y = np.concatenate([REFUSED[kind]] * 6)
    if kind == "dates" and way in ("from_tensors", "torch data set of tensors"):
        pytest.skip("there are no tensors of dates")
    if kind == "cube" and way == "torch data set of tensors":
        pytest.skip("a tensor of one number is a number")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numbers that do not fit must be seen before they are cast
        with pytest.raises(AskewError) as caught:
            WAYS[way](y, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_negative_labels_are_refused_or_keep_their_names(way, tmp_path):
    """Labels that are positions cannot be negative; where distinct ones are numbered, -1 and 1 are two classes."""
    y = np.array([-1, 1] * 9)
    if way.startswith(("from_tensors", "torch", "hugging face with names")):
        with pytest.raises(AskewError, match="label -1 is outside"):
            WAYS[way](y, tmp_path)
    else:
        data = WAYS[way](y, tmp_path)
        assert data.classes == ("-1", "1")
        assert data.train.y.float().mean() == 0.5


@pytest.mark.parametrize("way",
                         ["from_tensors", "from_tensors of arrays", "torch data set of tensors",
                          "torch data set of numbers"])
def test_an_identifier_is_no_class(way, tmp_path):
    """Ten thousand million names would fill the memory before anything is said."""
    with pytest.raises(AskewError,
                       match="label 10000000000 would make 10,000,000,001 classes; number the labels from 0"):
        WAYS[way](np.array([0, 10**10]), tmp_path)


@pytest.mark.parametrize("y",
                         [torch.tensor([0, 1]).int(), torch.tensor([0.0, 1.0]), torch.tensor([False, True]),
                          np.array([0, 1]), [0, 1], torch.eye(2).long(), torch.tensor(0)],
                         ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', '')}")
def test_examples_given_directly_have_vectors_of_int64(y):
    good = Examples(torch.zeros(2, 3), torch.tensor([0, 1]))
    for train, test in ((Examples(torch.zeros(2, 3), y), good), (good, Examples(torch.zeros(2, 3), y))):
        with pytest.raises(AskewError,
                           match=r"own: (train|test): labels must be .*Dataset.from_tensors takes") as caught:
            Dataset("own", train, test, ("a", "b"))
        assert "\n" not in str(caught.value)


def test_inputs_given_directly_are_tensors():
    bad = Examples(np.zeros((2, 3)), torch.tensor([0, 1]))
    with pytest.raises(AskewError, match="own: train: inputs must be a tensor with one entry per example, not ndarray"):
        Dataset("own", bad, bad, ("a", "b"))


def test_labels_of_unequal_lengths_and_bytes_that_are_no_text():
    from askew.data.labels import encode_labels

    for labels in ([[1], [1, 2]], np.array([b"\xff", b"a"])):
        with pytest.raises(AskewError, match="y: one label per example is needed, a whole number or a word"):
            encode_labels("y", labels)
    assert encode_labels("y", np.array([b"b", b"a"]))[1] == ("a", "b")
    with pytest.raises(AskewError, match="label 18446744073709551615 is beyond 64 bits"):
        encode_labels("y", np.array([2**64 - 1, 0], np.uint64))
