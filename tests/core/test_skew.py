"""Measures of skew on tables small enough to check by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askew.core import skew

COUNTS = np.array([[8, 0], [1, 1]])  # shares (1, 0) and (1/2, 1/2); together (9/10, 1/10)


def test_emd_by_hand() -> None:
    assert skew.emd(COUNTS) == pytest.approx([0.2, 0.8])
    assert skew.emd(COUNTS, np.array([5, 5])) == pytest.approx([1.0, 0.0])
    assert skew.mean_emd(COUNTS) == pytest.approx(0.5)
    assert skew.mean_emd(COUNTS, weighted=True) == pytest.approx((8 * 0.2 + 2 * 0.8) / 10)


def test_one_class_a_client_is_the_largest_emd() -> None:
    assert skew.emd(np.eye(10, dtype=int) * 7) == pytest.approx(np.full(10, 1.8))
    assert skew.largest_emd(10) == pytest.approx(1.8)
    assert skew.largest_emd(2) == pytest.approx(1.0)


def test_entropy_and_classes_by_hand() -> None:
    assert skew.entropy(np.array([[2, 2, 0, 0], [1, 1, 1, 1], [3, 0, 0, 0]])) == pytest.approx([1.0, 2.0, 0.0])
    assert not np.signbit(skew.entropy(np.array([[3, 0]]))).any()  # no "-0.00" in a table
    assert skew.classes_per_client(COUNTS).tolist() == [1, 2]
    assert skew.missing_classes(np.array([[1, 0, 2], [3, 0, 0]])).tolist() == [1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=8))
def test_emd_is_bounded_and_zero_for_copies_of_the_whole(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    assert (skew.emd(counts) <= 2.0).all()
    assert skew.emd(np.tile(counts.sum(axis=0), (3, 1))) == pytest.approx(np.zeros(3), abs=1e-12)
    assert (skew.entropy(counts) <= 2.0 + 1e-12).all()


@pytest.mark.parametrize(("size", "p"), [(1, [0.5, 0.5]), (7, [0.2, 0.3, 0.5]), (10, [0.1] * 10), (500, [0.1] * 10)])
def test_chance_emd_is_what_random_draws_give(size: int, p: list[float]) -> None:
    draws = np.random.default_rng(0).multinomial(size, p, 20_000)
    distances = skew.emd(draws, np.array(p))
    expected = float(skew.chance_emd(np.array([size]), np.array(p))[0])
    assert expected == pytest.approx(distances.mean(), abs=5 * distances.std() / math.sqrt(20_000) + 1e-12)


def test_chance_emd_where_a_share_is_whole_or_everything() -> None:
    assert skew.chance_emd(np.array([4]), np.array([0.5, 0.5])) == pytest.approx([0.375])  # 2 E|X/4 - 1/2| = 2 * 3/16
    assert skew.chance_emd(np.array([3]), np.array([1.0, 0.0])) == pytest.approx([0.0])


def test_unusual_is_more_than_small() -> None:
    # Client 1 has one example, so an EMD of 1 by chance; client 2 has a hundred of one class on purpose.
    counts = np.array([[60, 60], [1, 0], [0, 100], [55, 65]])
    assert skew.most_unusual(counts, np.array([1, 1]), number=2).tolist()[0] == 2
