import numpy as np

from askew.data.split import stratified_split


def test_each_class_gives_its_share_and_nothing_is_lost():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    train, test = stratified_split(labels, 0.2)
    assert np.bincount(labels[test]).tolist() == [10, 6, 4]
    assert sorted([*train, *test]) == list(range(100))


def test_the_split_is_random_within_a_class_but_always_the_same():
    labels = np.zeros(1000, np.int64)
    test = stratified_split(labels, 0.5)[1]
    assert np.array_equal(test, stratified_split(labels, 0.5)[1])
    assert 400 < np.median(test) < 600  # neither the first nor the last half
    assert test[:5].tolist() == [1, 2, 3, 5, 8]  # a changed split would silently change every result: it is frozen


def test_rare_classes_keep_a_training_example():
    train, test = stratified_split(np.array(["a", "b", "b", "c", "c", "c"]), 0.1)
    labels = np.array(["a", "b", "b", "c", "c", "c"])
    assert sorted(labels[test]) == ["b", "c"]
    assert sorted(labels[train]) == ["a", "b", "c", "c"]


def test_bad_fractions_and_splits_are_refused(refused):
    for fraction in (0.0, 1.0, -0.5, 1.5):
        with refused(rf"test_fraction must be between 0 and 1, not {fraction}"):
            stratified_split(np.zeros(10), fraction)
    with refused("none of 3 classes has two"):
        stratified_split(np.arange(3), 0.5)
