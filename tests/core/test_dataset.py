"""Data sets refuse what would go wrong later."""

import math

import numpy as np
import pytest
import torch

from askew.core.dataset import Dataset, Examples, Source
from askew.core.errors import AskewError


def make(x=None, y=(0, 1, 1), test_x=None, test_y=(0, 1), classes=None):
    x = torch.zeros(3, 2) if x is None else x
    test_x = torch.zeros(2, 2) if test_x is None else test_x
    return Dataset.from_tensors((x, torch.tensor(y)), (test_x, torch.tensor(test_y)), name="mine", classes=classes)


def with_bad_value(value):
    x = torch.zeros(3, 2)
    x[1, 0] = value
    return x


def test_tensors_are_wrapped_as_they_are():
    data = make()
    assert (len(data.train), len(data.test), data.num_classes, data.input_shape) == (3, 2, 2, (2,))
    assert data.classes == ("0", "1")
    grey = {"x": torch.zeros(3, 2, dtype=torch.uint8), "test_x": torch.zeros(2, 2, dtype=torch.uint8)}
    assert make(**grey).train.x.dtype == torch.uint8
    assert make(classes=["cat", "dog", "owl"]).num_classes == 3


@pytest.mark.parametrize(("changes", "message"), [
    ({"y": (0, 1)}, "mine: train: 3 inputs but 2 labels; there must be one label per input"),
    ({"y": (0, 1, -1)}, r"mine: train: label -1 is outside the 2 classes 0\.\.1"),
    ({"y": (0, 1, 2), "classes": ["a", "b"]}, r"mine: train: label 2 is outside the 2 classes 0\.\.1"),
    ({"test_y": (0, 5)}, r"mine: test: label 5 is outside the 2 classes 0\.\.1"),
    ({"x": with_bad_value(math.nan)}, "mine: train: example 1 holds NaN or infinity; clean the data first"),
    ({"x": with_bad_value(-math.inf)}, "mine: train: example 1 holds NaN or infinity"),
    ({"test_x": torch.full((2, 2), math.nan)}, "mine: test: example 0 holds NaN"),
    ({"test_x": torch.zeros(2, 3)}, r"training inputs are \(2,\), test inputs \(3,\); they must have one shape"),
    ({"test_x": torch.zeros(0, 2), "test_y": ()}, "mine: test: no examples"),
    ({"x": torch.zeros(0, 2), "y": ()}, "mine: train: no examples"),
    ({"y": ((0, 1), (1, 0), (0, 0))}, "labels must be a vector of int64"),
])
def test_what_cannot_be_trained_on_is_refused(changes, message):
    with pytest.raises(AskewError, match=message) as error:
        make(**changes)
    assert "\n" not in str(error.value)


def test_owners_must_fit_the_examples():
    train, test = Examples(torch.zeros(3, 1), torch.tensor([0, 1, 0])), Examples(torch.zeros(1, 1), torch.tensor([0]))
    data = Dataset("mine", train, test, ("a", "b"), client_ids=np.array([7, 7, 9]))
    assert Source.of(data).client_ids.tolist() == [7, 7, 9]
    with pytest.raises(AskewError, match="mine: 2 client ids for 3 train examples"):
        Dataset("mine", train, test, ("a", "b"), client_ids=np.array([7, 7]))
    with pytest.raises(AskewError, match="mine: 2 client ids for 1 test examples"):
        Dataset("mine", train, test, ("a", "b"), test_client_ids=np.array([7, 7]))


def test_a_source_has_labels_and_owners_of_a_part():
    source = Source(np.array([0, 1, 2, 1]), 3, client_ids=np.array([5, 6, 7, 8]))
    part = source.take(np.array([3, 0]))
    assert part.labels.tolist() == [1, 0]
    assert part.client_ids.tolist() == [8, 5]
    assert part.num_classes == 3
