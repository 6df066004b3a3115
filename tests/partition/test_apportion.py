"""Whole numbers in given proportions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askew.partition.apportion import even_sizes, fill_in_proportion, round_systematically


@settings(max_examples=200, deadline=None)
@given(weights=st.lists(st.floats(0.001, 1000), min_size=1, max_size=12), total=st.integers(0, 10**6),
       offset=st.floats(0, 0.999))
def test_rounding_is_off_by_less_than_one_and_keeps_the_sum(weights: list[float], total: int, offset: float) -> None:
    shares = np.array([weights]) / np.sum(weights)
    whole = round_systematically(shares, np.array([total]), np.array([offset]))[0]
    assert whole.sum() == total
    assert (whole >= 0).all()
    assert np.abs(whole - shares[0] * total).max() < 1 + 1e-6


def test_rounding_is_unbiased() -> None:
    shares = np.tile([0.31, 0.07, 0.62], (100_000, 1))
    whole = round_systematically(shares, np.full(100_000, 5), np.random.default_rng(0).random(100_000))
    assert whole.mean(axis=0) == pytest.approx([1.55, 0.35, 3.1], abs=0.01)


def test_a_class_without_a_share_gets_nothing() -> None:
    shares = np.tile([0.1] * 7 + [0.3, 0.0], (1000, 1))
    assert round_systematically(shares, np.full(1000, 10), np.random.default_rng(1).random(1000))[:, -1].max() == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 50)), min_size=1, max_size=10), st.floats(0, 1))
def test_filling_respects_limits_and_uses_all(parts: list[tuple[float, int]], fraction: float) -> None:
    weights, limits = np.array([w for w, _ in parts]), np.array([float(limit) for _, limit in parts])
    total = fraction * limits.sum()
    filled = fill_in_proportion(weights, total, limits)
    assert filled.sum() == pytest.approx(total, abs=1e-6)
    assert (filled <= limits + 1e-9).all()
    free = filled < limits - 1e-9
    if free.sum() > 1:  # those below their limit keep their proportions
        ratio = filled[free] / weights[free]
        assert ratio == pytest.approx(np.full(len(ratio), ratio[0]), rel=1e-6, abs=1e-7)


def test_even_sizes() -> None:
    assert even_sizes(10, 4).tolist() == [3, 3, 2, 2]
