import numpy as np
import torch

from askew.data.labels import encode_labels


def test_numbers_go_by_value_and_words_by_the_alphabet():
    (codes,), classes = encode_labels("y", [10, 9, 10, 2])
    assert (codes.tolist(), classes) == ([2, 1, 2, 0], ("2", "9", "10"))
    (codes,), classes = encode_labels("y", ["10", "9", "2"])
    assert (codes.tolist(), classes) == ([0, 2, 1], ("10", "2", "9"))
    assert codes.dtype == torch.int64


def test_splits_share_their_classes():
    (train, test), classes = encode_labels("y", np.array([[3], [1]]), np.array([[2]]))
    assert (train.tolist(), test.tolist(), classes) == ([2, 0], [1], ("1", "2", "3"))


def test_whole_floats_and_booleans_are_numbers():
    assert encode_labels("y", np.array([1.0, 0.0]))[1] == ("0", "1")
    assert encode_labels("y", np.array([True, False]))[1] == ("0", "1")
    assert encode_labels("y", np.array(["b", "a"], dtype=object))[1] == ("a", "b")


def test_what_is_no_class_is_refused(refused):
    with refused(r"y: label 0.5 of example 1 is no class"):
        encode_labels("y", [1.0, 0.5])
    with refused("y: label nan of example 0 is no class"):
        encode_labels("y", [np.nan])
    with refused("y: example 1 has no label"):
        encode_labels("y", ["a", None])
    with refused(r"one label per example is needed, not an array of shape \(2, 3\)"):
        encode_labels("y", np.zeros((2, 3)))
    with refused("numbers in one split and words in the other"):
        encode_labels("y", [1], ["a"])
    with refused("labels of types int, str"):
        encode_labels("y", np.array(["a", 1], dtype=object))
    with refused("labels of type complex128"):
        encode_labels("y", np.array([1j]))
