"""How a sweep ranks: by the mean over seeds in the last round, never by the best round; ranges that are drawn from."""

import numpy as np
import pytest

import askew
from askew.runs.ranking import ranked
from askew.runs.search import Range, random_settings


def result(*scores, seed=0, held_out=(), **rest):
    records = [{"round": n, "accuracy": score, "loss": 1.0} for n, score in enumerate(scores, 1)]
    for record, score in zip(records, held_out, strict=False):
        record["held_out_accuracy"] = score
    return askew.Result(askew.Recipe(rounds=len(scores) or 1, seed=seed), records, {}, 1.0, **rest)


def names(rows):
    return [row.values["x"] for row in rows]


def test_the_best_round_plays_no_part():
    rows = ranked([{"x": "peak"}, {"x": "steady"}], [result(0.99, 0.5), result(0.6, 0.7)])
    assert names(rows) == ["steady", "peak"]
    assert rows[0].mean == 0.7


def test_seeds_are_one_row_with_mean_and_spread():
    settings = [{"x": x, "seed": seed} for x in (1, 2) for seed in (0, 1, 2)]
    rows = ranked(settings, [result(s) for s in (0.1, 0.2, 0.6, 0.3, 0.4, 0.5)])
    assert names(rows) == [2, 1]
    assert [(row.mean, row.std) for row in rows] == [pytest.approx((0.4, 0.1)), pytest.approx(
        (0.3, float(np.std([0.1, 0.2, 0.6], ddof=1))))]
    assert ranked([{"x": 1}], [result(0.5)])[0].std is None


def test_what_broke_off_comes_last_however_good_its_other_seeds_are():
    settings = [{"x": x, "seed": seed} for x in ("half", "poor", "none") for seed in (0, 1)]
    rows = ranked(settings, [result(0.9), result(0.9, diverged="it diverged"), result(0.2), result(0.2),
                             result(failed="no"), result(diverged="no")])
    assert names(rows) == ["poor", "half", "none"]
    assert (rows[1].mean, len(rows[1].broke_off), rows[2].mean) == (0.9, 1, None)


def test_held_out_data_rank_by_themselves():
    runs = [result(0.9, held_out=[0.1]), result(0.1, held_out=[0.9])]
    settings = [{"x": "test"}, {"x": "held"}]
    assert names(ranked(settings, runs)) == ["test", "held"]
    assert names(ranked(settings, runs, "held-out")) == ["held", "test"]


def test_less_may_be_better():
    def error(value):
        records = [{"round": 1, "mean_squared_error": value, "loss": value}]
        return askew.Result(askew.Recipe(objective="mean_squared_error()"), records, {}, 1.0)

    assert names(ranked([{"x": 1}, {"x": 2}], [error(3.0), error(2.0)])) == [2, 1]


@pytest.mark.parametrize(("drawn", "low", "high", "middle"), [
    (Range("log", 0.001, 1), 0.001, 1, 10**-1.5), (Range("uniform", -1, 3), -1, 3, 1),
    (Range("whole", 2, 5), 2, 5, 3.5)])
def test_a_range_is_drawn_from_evenly(drawn, low, high, middle):
    beside = Range("uniform", 0, 1)  # no setting is drawn twice, and four whole numbers are soon drawn
    values = [setting["x"] for setting in random_settings({"x": drawn, "y": beside}, 400)]
    assert low <= min(values)
    assert max(values) <= high
    assert np.mean(np.array(values) < middle) == pytest.approx(0.5, abs=0.08)
    if drawn.kind == "whole":
        assert set(values) == {2, 3, 4, 5}
    assert (drawn.at(0.0), drawn.at(1.0)) == (low, high)


def test_no_setting_is_drawn_twice(refused):
    axes = {"x": Range("whole", 1, 3), "y": ["a", "b"]}
    drawn = random_settings(axes, 6)
    assert len({repr(setting) for setting in drawn}) == 6
    assert drawn[:4] == random_settings(axes, 4)
    with refused("--random: 7 different settings are asked for, and these ranges and lists hold 6; draw fewer, or"):
        random_settings(axes, 7)


def test_a_longer_search_begins_with_the_shorter_one_and_seeds_are_crossed():
    axes = {"x": Range("log", 0.001, 1), "y": ["a", "b"], "seed": [4, 5]}
    long = random_settings(axes, 20)
    assert long[:6] == random_settings(axes, 3)
    assert random_settings(axes, 3, seed=1) != long[:6]
    assert [s["seed"] for s in long] == [4, 5] * 20
    assert all({**one, "seed": 0} == {**other, "seed": 0} for one, other in zip(long[::2], long[1::2], strict=True))
    assert {s["y"] for s in long} == {"a", "b"}
