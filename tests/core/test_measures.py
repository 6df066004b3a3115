"""Every measure against scikit-learn's, over random cases: classes that are missing, ties, one class, weights."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from askew.core.measures import BINS, ByClass, Calibration, Residuals, auroc, mean_of_defined

CASES = range(40)


def drawn(case):
    """Labels, answers, scores and weights of a random problem; every third one has ties, every second weights."""
    draw = np.random.default_rng(case)
    classes, examples = int(draw.integers(2, 7)), int(draw.integers(1, 60))
    present = draw.choice(classes, int(draw.integers(1, classes + 1)), replace=False)
    labels = draw.choice(present, examples)
    scores = draw.random((examples, classes))
    scores = scores.round(1) if case % 3 == 0 else scores
    weights = draw.random(examples) + 0.1 if case % 2 else np.ones(examples)
    return classes, labels, scores.argmax(axis=1), scores, weights


@pytest.mark.parametrize("case", CASES)
def test_recall_precision_f1_are_sklearns(case):
    classes, labels, answers, _, weights = drawn(case)
    counts = ByClass(classes)
    half = len(labels) // 2  # in two parts, as chunks come
    for part in (slice(0, half), slice(half, None)):
        counts.add(labels[part], answers[part], weights[part])
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        labels, answers, labels=range(classes), sample_weight=weights, zero_division=np.nan)
    assert counts.precision == pytest.approx(precision, nan_ok=True)
    assert counts.recall == pytest.approx(recall, nan_ok=True)
    assert counts.f1 == pytest.approx(f1, nan_ok=True)
    named = np.union1d(labels, answers)
    assert mean_of_defined(counts.f1) == pytest.approx(metrics.f1_score(
        labels, answers, labels=named, average="macro", sample_weight=weights, zero_division=0))
    assert mean_of_defined(counts.recall) == pytest.approx(metrics.recall_score(
        labels, answers, labels=np.unique(labels), average="macro", sample_weight=weights))


@pytest.mark.parametrize("case", CASES)
def test_auroc_is_sklearns_and_undefined_without_both(case):
    classes, labels, _, scores, weights = drawn(case)
    for c in range(classes):
        positive = labels == c
        got = auroc(positive, scores[:, c], weights)
        if positive.all() or not positive.any():
            assert np.isnan(got)
        else:
            assert got == pytest.approx(metrics.roc_auc_score(positive, scores[:, c], sample_weight=weights))


@pytest.mark.parametrize("case", CASES)
def test_the_calibration_error_is_that_of_sklearns_curve(case):
    _, labels, answers, scores, _ = drawn(case)
    sure, right = scores.max(axis=1), labels == answers
    calibration = Calibration()
    calibration.add(sure, right, np.ones(len(labels)))
    share_right, mean_sure = calibration_curve(right, sure, n_bins=BINS)
    sizes = np.histogram(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], sure), np.arange(BINS + 1))[0]
    expected = np.abs(share_right - mean_sure) @ sizes[sizes > 0] / len(labels)
    assert calibration.error == pytest.approx(expected)


def test_a_bin_has_its_upper_edge_in_it():
    calibration = Calibration()
    calibration.add(np.array([0.0, 1 / 15, np.nextafter(1 / 15, 1), 1.0]), np.ones(4, bool), np.ones(4))
    assert calibration.sums[0, [0, 1, 14]].tolist() == [2, 1, 1]
    assert Calibration().error is None


@pytest.mark.parametrize("case", CASES)
def test_residuals_are_sklearns(case):
    draw = np.random.default_rng(case)
    shape = int(draw.integers(2, 40)), int(draw.integers(1, 4))
    far = 1e4 * draw.integers(0, 2)  # targets far from 0 lose no digits
    targets = far + draw.normal(size=shape)
    answers, weights = targets + draw.normal(size=shape), draw.random(shape[0]) + 0.1
    residuals = Residuals(shape[1], targets.mean(axis=0))
    for part in (slice(0, 1), slice(1, None)):
        residuals.add(targets[part], answers[part], weights[part])
    assert residuals.r2 == pytest.approx(metrics.r2_score(targets, answers, sample_weight=weights), abs=1e-9)
    assert residuals.mean_absolute_error == pytest.approx(
        metrics.mean_absolute_error(targets, answers, sample_weight=weights))
    squared = metrics.mean_squared_error(targets, answers, sample_weight=weights)
    assert residuals.root_mean_squared_error == pytest.approx(np.sqrt(squared))


def test_r2_of_targets_that_do_not_differ_is_not_defined():
    residuals = Residuals(2, np.array([5.0, 0.0]))
    residuals.add(np.array([[5.0, 0.0], [5.0, 2.0]]), np.array([[4.0, 0.0], [6.0, 2.0]]), np.ones(2))
    assert residuals.r2 == 1.0  # of the second output alone
    residuals = Residuals(1, np.array([0.1]))
    residuals.add(np.full((3, 1), 0.1), np.ones((3, 1)), np.ones(3))
    assert residuals.r2 is None
