"""Paired gains: by hand, against scipy, and whether intervals of few seeds hold the truth as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from askew.advice.gains import Gain, Scale, chance_best, student


@pytest.mark.parametrize("freedom", [1, 2, 5, 11, 30, 31, 40, 120, 1000])
def test_the_table_is_students(freedom: int) -> None:
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=6e-4)


def test_an_interval_is_scipys() -> None:
    values = np.array([1.0, 4.0, 2.5, -0.5, 3.0])
    gain = Gain.of(values)
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (gain.mean, gain.std) == pytest.approx((2.0, values.std(ddof=1)), abs=1e-6)
    assert (gain.low, gain.high) == pytest.approx((low, high), abs=2e-3)


@pytest.mark.parametrize("seeds", [3, 6, 12])
@pytest.mark.parametrize("shape", ["normal", "shares of 300 examples", "skewed"])
def test_intervals_hold_the_mean_as_often_as_they_say(seeds: int, shape: str) -> None:
    draw = np.random.default_rng(seeds)
    if shape == "normal":
        samples, mean = draw.normal(2, 1, (1500, seeds)), 2.0
    elif shape == "skewed":  # the mean of a gamma of shape 4
        samples, mean = draw.gamma(4, 1, (1500, seeds)), 4.0
    else:
        one, other = draw.binomial(300, 0.9, (1500, seeds)), draw.binomial(300, 0.87, (1500, seeds))
        samples, mean = 100 * (one - other) / 300, 3.0
    gains = [Gain.of(row) for row in samples]
    held = np.mean([gain.low <= mean <= gain.high for gain in gains])
    assert 0.92 < held < 0.98


def test_seeds_without_a_score_are_left_out_and_counted() -> None:
    gain = Gain.of(Scale().gains([0.9, math.nan, 0.8], [0.8, 0.8, 0.8]), broke_off=1)
    assert (gain.seeds, gain.broke_off, gain.mean) == (2, 1, 5.0)
    assert Gain.of(np.array([math.nan])).seeds == 0
    assert Gain.of(np.array([1.0])).low == -math.inf


def test_errors_gain_when_they_fall() -> None:
    scale = Scale(higher_is_better=False, is_share=False)
    assert scale.gains([1.0, 1.0], [2.0, 6.0]).tolist() == [25.0, 125.0]  # percent of the opponent's mean, 4
    assert sorted([3.0, math.nan, 1.0], key=scale.best_first)[0] == 1.0
    assert sorted([3.0, math.nan, 1.0], key=Scale().best_first)[0] == 3.0


def test_the_chance_of_being_best() -> None:
    draw = np.random.default_rng(0)
    even = {"a": draw.normal(0, 1, 50), "b": draw.normal(0, 1, 50)}
    chances = chance_best(even, 0)
    assert sum(chances.values()) == pytest.approx(1)
    # Two means of 50 seeds: the chance is that of a normal difference.
    difference = even["a"] - even["b"]
    z = difference.mean() / (difference.std() / math.sqrt(50))
    assert chances["a"] == pytest.approx(stats.norm.cdf(z), abs=0.03)
    assert chance_best({"a": np.array([math.nan, 1.0]), "b": np.array([0.0, 0.0])}, 0) == {"a": 0.0, "b": 1.0}
