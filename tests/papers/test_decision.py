"""What decides a claim, by hand."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from askew.papers.decision import BY_CHANCE, decide, missing_rows, quantile
from askew.papers.item import Claim
from askew.papers.papers import all_items
from askew.papers.values import Value

ABOVE = Claim("a is above b", "here", lambda v: v["a"] - v["b"])
GROWS = Claim("it grows", "here", lambda v: (v["b"] - v["a"], v["c"] - v["b"]))
NEAR = Claim("a is b, to 2 points", "here", lambda v: 2 - abs(v["a"] - v["b"]))


def values(noise=1.0, **means):
    return {name: Value(mean, None, 1, 0, True, None, noise) for name, mean in means.items()}


@pytest.mark.parametrize(("a", "b", "noise", "expected"), [
    (99.26, 99.14, 0.09, "open: within the noise"),  # +0.12 points; twice sqrt(0.09^2 + 0.09^2) is 0.25
    (99.40, 99.14, 0.09, "holds"), (98.80, 99.14, 0.09, "fails"), (98.95, 99.14, 0.09, "open: within the noise"),
    (50.0, 39.9, 5.0, "open: within the noise"), (54.2, 40.0, 5.0, "holds"),  # 14.1
    (50.0, 40.0, 0.0, "holds"), (40.0, 40.0, 0.0, "open: within the noise"),
])
def test_an_inequality_is_met_by_more_than_the_noise(a, b, noise, expected):
    assert decide(ABOVE, values(noise, a=a, b=b)) == expected


def test_one_inequality_clearly_missed_fails_and_one_in_doubt_leaves_it_open():
    assert decide(GROWS, values(a=10, b=20, c=30)) == "holds"
    assert decide(GROWS, values(a=10, b=20, c=21)) == "open: within the noise"
    assert decide(GROWS, values(a=10, b=20, c=10)) == "fails"
    assert decide(GROWS, values(a=19, b=20, c=10)) == "fails"


def test_noise_of_margins_that_are_no_straight_lines():
    assert decide(NEAR, values(0.1, a=50, b=50)) == "holds"  # both ways away from 50 the margin falls by 0.1
    assert decide(NEAR, values(1.0, a=50, b=50)) == "open: within the noise"
    assert decide(NEAR, values(1.0, a=50, b=60)) == "fails"


@pytest.mark.parametrize("broken", [Value(10.0, None, 1, 0, True, None, 0.3, lost=1), Value(None, None, 0, 1, True),
                                    Value(60.0, None, 1, 2, True, None, 0.3, lost=2)],
                         ids=["at chance", "diverged", "one of three"])
def test_runs_that_diverged_or_collapsed_are_no_evidence(broken):
    """ "It drops by more than 17 points" does not hold because a run fell to 10%."""
    assert decide(ABOVE, {**values(a=86.0), "b": broken}) == "open: runs diverged or ended at chance"
    assert decide(GROWS, {**values(a=86.0), "b": broken}) == "not measured"  # c is missing as well
    assert decide(GROWS, {**values(a=86.0), "b": broken, "c": Value()}) == "not measured"


WORKS = Claim("more rates work for a than for b", "here",
              lambda v: sum(v[f"a{i}"] >= 50 for i in range(3)) - sum(v[f"b{i}"] >= 50 for i in range(3)), 10.0)


def test_a_rate_at_which_training_diverges_is_one_that_does_not_work():
    lost = Value(None, None, 0, 1, True)
    ours = values(0.3, a0=80, a1=80, b0=80, b1=40)
    assert decide(WORKS, {**ours, "a2": lost, "b2": lost}) == "holds"  # 2 against 1
    assert decide(WORKS, {**ours, "a1": lost, "a2": lost, "b2": lost}) == "open: within the noise"  # 1 against 1
    assert decide(WORKS, {**ours, "a0": lost, "a1": lost, "a2": lost, "b2": lost}) == "fails"
    assert decide(WORKS, {**ours, "a2": lost}) == "not measured"  # nobody has tried b2


def seeds(*numbers):
    return Value(statistics.fmean(numbers), None, len(numbers), 0, True, None, 1.0, by_seed=dict(enumerate(numbers)))


def test_three_seeds_in_common_are_judged_seed_by_seed():
    """Differences of 1, 2, 3, 2, 2: mean 2, spread sqrt(1/2), so 2 +- 2.776 sqrt(1/10) = 2 +- 0.88."""
    a, b = seeds(51, 62, 73, 82, 92), seeds(50, 60, 70, 80, 90)
    assert decide(ABOVE, {"a": a, "b": b}) == "holds"  # by their noise of 1 each it would be open: 2 < 2 sqrt(2)
    assert decide(ABOVE, {"a": b, "b": a}) == "fails"
    assert decide(Claim("a is above b by 1", "here", lambda v: v["a"] - v["b"] - 1), {"a": a, "b": b}) == "holds"
    more = Claim("by 1.2", "here", lambda v: v["a"] - v["b"] - 1.2)
    assert decide(more, {"a": a, "b": b}) == "open: within the noise"
    three = {"a": seeds(53, 63, 74), "b": seeds(50, 60, 70)}  # 3.33 +- 4.303 / 3 = 1.43
    assert decide(ABOVE, three) == "holds"
    less = {"a": seeds(51, 62, 73), "b": seeds(50, 60, 70)}  # 2 +- 4.303 / sqrt(3) = 2.48
    assert decide(ABOVE, less) == "open: within the noise"
    two = {"a": seeds(53, 63), "b": seeds(50, 60)}  # by their noise: 3 > 2 sqrt(2)
    assert decide(ABOVE, two) == "holds"


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_number_decides_nothing(odd):
    assert decide(ABOVE, values(a=odd, b=50.0)) != "holds"
    assert decide(GROWS, values(a=50.0, b=60.0, c=odd)) != "holds"


def test_margins_that_bend_are_those_of_the_means():
    """|a - b| is 3 with each seed, and 0 of the means, whose difference has a standard error of sqrt(12 / 4) = 1.73."""
    a, b = seeds(83, 77, 83, 77), seeds(80, 80, 80, 80)
    assert decide(NEAR, {"a": a, "b": b}) == "open: within the noise"  # 2 < 3.18 x 1.73; seed by seed -1, surely
    wide = Claim("a is b, to 6 points", "here", lambda v: 6 - abs(v["a"] - v["b"]))
    assert decide(wide, {"a": a, "b": b}) == "holds"
    best = Claim("the best of three is above b", "here", lambda v: max(v[name] for name in "acd") - v["b"])
    alike = {name: seeds(*(80 + 3 * ((at * k + at) % 5 - 2) for at in range(5))) for k, name in enumerate("abcd")}
    assert {value.mean for value in alike.values()} == {80.0}
    assert decide(best, alike) == "open: within the noise"


def test_each_inequality_is_judged_by_the_seeds_of_its_own_rows():
    """a is above b seed by seed; that c has other seeds, or one, is no reason to forget that."""
    a, b = seeds(51, 62, 73, 82, 92), seeds(50, 60, 70, 80, 90)
    both = Claim("a is above b, and c", "here", lambda v: (v["a"] - v["b"], v["a"] - v["c"]))
    for c in (seeds(40.0), seeds(*[40.0] * 30), values(c=40.0)["c"]):
        assert decide(both, {"a": a, "b": b, "c": c}) == "holds"
    assert decide(both, {"a": b, "b": a, "c": Value()}) == "fails"  # whatever c will be
    assert decide(both, {"a": a, "b": b, "c": Value()}) == "not measured"


def test_where_most_seeds_of_a_row_are_its_own_all_of_them_count():
    """Three in common, which differ by 2 +- 2.48, of seven: by their noise of 1 each, a mean of 70 is above 62."""
    b = seeds(50, 60, 70)
    assert decide(ABOVE, {"a": seeds(51, 62, 73, 76), "b": b}) == "open: within the noise"  # 65.5 and 60 by the noise
    assert decide(ABOVE, {"a": seeds(51, 62, 73, 76, 76, 76, 76), "b": b}) == "holds"


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=3, max_size=12))
@settings(max_examples=100, deadline=None)
def test_seed_by_seed_is_the_paired_t_test(pairs):
    differences = [a - b for a, b in pairs]
    if statistics.stdev(differences) < 1e-3:
        return
    p = stats.ttest_rel(*zip(*pairs, strict=True)).pvalue
    a, b = (seeds(*side) for side in zip(*pairs, strict=True))
    if abs(p - 2 * BY_CHANCE) > 1e-6:
        assert (decide(ABOVE, {"a": a, "b": b}) != "open: within the noise") == (p < 2 * BY_CHANCE)


@pytest.mark.parametrize("above", [0.025, 1e-3, 1e-5])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 30, 1000])
def test_quantile_of_t(freedom, above):
    assert quantile(above, freedom) == pytest.approx(stats.t.isf(above, freedom), rel=1e-8)
    assert quantile(above) == pytest.approx(stats.norm.isf(above), rel=1e-8)


def test_one_inequality_of_many_has_to_be_missed_by_more():
    """a is 2.2 noises below each b: of one inequality that is enough, of ten 2.84 are asked for, of 100 3.49."""
    def all_above(number):
        return Claim("a is above all b", "here", lambda v: [v["a"] - v["b"]] + [1.0] * (number - 1))

    ours = {"a": Value(60.0, None, 1, 0, True, None, 1.0), "b": Value(62.2, None, 1, 0, True, None, 0.0)}
    assert [decide(all_above(number), ours) for number in (1, 2, 10)] == ["fails", *["open: within the noise"] * 2]
    low = {"a": ours["a"], "b": Value(63.0, None, 1, 0, True, None, 0.0)}
    assert [decide(all_above(number), low) for number in (1, 10, 100)] == ["fails", "fails", "open: within the noise"]


@pytest.mark.parametrize(("there", "expected"), [
    ({"a": 20, "b": 10}, "fails"),  # whatever c is
    ({"a": 10, "b": 20}, "not measured"), ({"a": 10, "b": 9}, "not measured"),  # 1 below, with a noise of 1.4
    ({"a": 20, "c": 10}, "not measured"),  # each inequality asks for b
    ({"c": 10, "b": 20}, "fails")])
def test_what_one_inequality_says_stands_whatever_the_rows_are_that_are_missing(there, expected):
    assert decide(GROWS, values(**there)) == expected


@given(st.sampled_from([claim for item in all_items() for claim in item.claims]), st.data())
@settings(max_examples=100, deadline=None)
def test_rows_that_are_measured_later_save_no_claim_that_fails(claim, data):
    """Of every claim of the papers: fails with some of its rows, fails with all of them."""
    names = missing_rows(claim, {})
    whole = {name: Value(data.draw(st.floats(0, 100)), None, 1, 0, True, None, 0.5) for name in names}
    part = {name: value for name, value in whole.items() if data.draw(st.booleans())}
    assert decide(claim, part) != "holds" or len(part) == len(whole)
    if decide(claim, part) == "fails":
        assert decide(claim, whole) == "fails"


def test_all_missing_rows_are_named():
    assert missing_rows(GROWS, {"b": 1.0}) == ["a", "c"]
    assert missing_rows(GROWS, {"a": 1.0, "b": 1.0, "c": 1.0}) == []
    assert decide(ABOVE, {}) == "not measured"


@pytest.mark.parametrize("margins", [True, (1.0, False), ()])
def test_truth_values_are_refused(margins):
    """They would be margins of 1 and 0, whatever the noise."""
    with pytest.raises(TypeError, match="margins are differences"):
        decide(Claim("it holds", "here", lambda v: margins), {})


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 20), st.floats(0, 20))
@settings(max_examples=200, deadline=None)
def test_more_noise_decides_nothing(a, b, noise, more):
    before, after = decide(ABOVE, values(noise, a=a, b=b)), decide(ABOVE, values(noise + more, a=a, b=b))
    assert after in (before, "open: within the noise")


@pytest.mark.parametrize("item", [item for item in all_items() if item.claims], ids=lambda item: item.address)
def test_every_claim_of_the_papers_is_open_when_all_rows_are_one_noisy_number(item):
    """A table of equal numbers decides only claims that say how equal they are, or how large."""
    for claim in item.claims:
        margins = claim.met_by(dict.fromkeys((row.name for row in item.rows), 50.0))
        noisy = {row.name: Value(50.0, None, 1, 0, True, None, 1e6) for row in item.rows}
        assert decide(claim, noisy) == "open: within the noise", claim.says
        assert len(margins) == len(claim.met_by({row.name: float(i) for i, row in enumerate(item.rows)}))


@pytest.mark.parametrize("item", [item for item in all_items() if item.claims], ids=lambda item: item.address)
def test_a_collapsed_run_decides_no_claim_of_the_papers(item):
    """But those about which settings work."""
    for claim in (claim for claim in item.claims if claim.lost_counts is None):
        asked = missing_rows(claim, {})
        for name in asked:
            ours = values(0.1, **dict.fromkeys(asked, 60.0)) | {name: Value(10.0, None, 1, 0, True, None, 0.3, lost=1)}
            without = decide(claim, {other: value for other, value in ours.items() if other != name})
            expected = {"fails": "fails", "not measured": "open: runs diverged or ended at chance"}[without]
            assert decide(claim, ours) == expected
