import numpy as np
import pytest
import torch

from askew.data import from_huggingface


class Rows:
    """The part of `datasets.Dataset` that is used, for machines without that package."""

    def __init__(self, **columns):
        self.columns, self.column_names, self.features = columns, list(columns), {}

    def select_columns(self, names):
        return Rows(**{name: self.columns[name] for name in names})

    def __getitem__(self, column):
        return self.columns[column]

    def __iter__(self):
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))


def test_columns_of_numbers_and_words():
    train = Rows(feature=[[1.0, 2.0], [3.0, 4.0]], kind=["b", "a"], who=["x", "y"])
    test = Rows(feature=[[5.0, 6.0]], kind=["b"], who=["z"])
    data = from_huggingface(train, test, "feature", "kind", "who", name="rows")
    assert data.train.x.tolist() == [[1, 2], [3, 4]]
    assert data.train.y.tolist() == [1, 0]
    assert (data.client_ids.tolist(), data.test_client_ids.tolist()) == ([0, 1], [2])
    assert data.client_names == ("x", "y", "z")


def test_bad_columns_are_refused(refused):
    good = Rows(image=[[1.0], [2.0]], label=[0, 1])
    with refused("train has no column 'img'; did you mean 'image'"):
        from_huggingface(good, good, "img")
    with refused("test has no column 'label'"):
        from_huggingface(good, Rows(image=[[1.0]]))
    with refused(r"example 1 has shape \(2,\), example 0 \(1,\)"):
        from_huggingface(Rows(image=[[1.0], [1.0, 2.0]], label=[0, 1]), good)
    with refused("column 'image': no examples"):
        from_huggingface(Rows(image=[], label=[]), good)


def test_images_that_bytes_cannot_hold_are_refused(refused):
    image = pytest.importorskip("PIL.Image")
    rows = Rows(image=[image.fromarray(np.full((3, 4), 4000, np.uint16))], label=[0])
    with refused("example 0 has more than 8 bits per pixel"):
        from_huggingface(rows, rows)


def test_images_as_arrays_have_their_channels_first_too():
    class Image:
        """The feature of a column of images; arrays of `with_format("numpy")` are height x width x channels."""

    rows = Rows(image=[np.full((4, 5, 3), [1, 2, 3], np.uint8)], label=[0])
    rows.features = {"image": Image()}
    data = from_huggingface(rows, rows)
    assert data.train.x.shape == (1, 3, 4, 5)
    assert data.train.x[0, :, 0, 0].tolist() == [1, 2, 3]
    tensors = Rows(image=[torch.zeros(3, 4, 5, dtype=torch.uint8)], label=[0])  # of `with_format("torch")`
    tensors.features = rows.features
    assert from_huggingface(tensors, tensors).train.x.shape == (1, 3, 4, 5)


def test_a_real_datasets_object():
    datasets, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    pictures = [image.fromarray(np.full((4, 5, 3), [10 * i, 0, 255], np.uint8)) for i in range(6)]
    kinds = datasets.ClassLabel(names=["cat", "dog", "owl"])
    features = datasets.Features({"img": datasets.Image(), "label": kinds, "user": datasets.Value("string")})
    columns = {"img": pictures, "label": [0, 1, 0, 1, 0, 1], "user": list("ppqqrr")}
    rows = datasets.Dataset.from_dict(columns, features=features)
    data = from_huggingface(rows, rows.select([0, 3]), "img", "label", "user")
    assert data.train.x.shape == (6, 3, 4, 5)
    assert data.train.x.dtype == torch.uint8
    assert data.train.x[2, :, 0, 0].tolist() == [20, 0, 255]
    assert data.classes == ("cat", "dog", "owl")  # a class without examples keeps its place
    assert data.test.y.tolist() == [0, 1]
    assert data.client_ids.tolist() == [0, 0, 1, 1, 2, 2]
