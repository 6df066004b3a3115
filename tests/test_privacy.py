"""What noise promises: against closed forms and against a bound written out here."""

import math
import sys

import pytest
from scipy.stats import norm

import askew
from askew.privacy import epsilon

ORDERS = range(2, 257)


@pytest.fixture
def accountant():
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'askew[privacy]'")


def from_renyi(rdp, delta):
    """The smallest epsilon over the orders (Canonne, Kamath and Steinke 2020, proposition 12)."""
    return min(rdp(a) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in ORDERS)


def exact_gaussian(mu, delta):
    """Balle and Wang 2018, theorem 8: one Gaussian release with sensitivity / sigma = mu, by bisection."""
    low, high = 0.0, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        spent = norm.cdf(mu / 2 - middle / mu) - math.exp(min(700.0, middle)) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if spent > delta else (low, middle)
    return high


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (4.0, 1), (10.0, 30), (20.0, 200)])
def test_all_clients_in_each_round_is_the_plain_gaussian_mechanism(accountant, noise, rounds):
    """Replacing one client moves the mean by two lengths: mu = 2 sqrt(rounds) / noise. The accountant's bound lies
    above the exact epsilon, by less than an eighth, and on or below that of whole orders."""
    exact = exact_gaussian(2 * math.sqrt(rounds) / noise, 1e-5)
    by_hand = from_renyi(lambda a: rounds * a / (2 * (noise / 2) ** 2), 1e-5)
    assert exact <= epsilon(noise, 1.0, rounds, 1e-5) <= by_hand * (1 + 1e-9)
    assert by_hand < 1.125 * exact


@pytest.mark.parametrize(("noise", "fraction", "rounds"), [(1.0, 0.01, 100), (4.0, 0.1, 100), (8.0, 0.05, 1000)])
def test_sets_of_fixed_size_cost_no_more_than_the_general_bound(accountant, noise, fraction, rounds):
    """Wang, Balle and Kasiviswanathan 2019, theorem 9, for whole orders; theorem 27, the accountant's, is sharper."""
    sigma = noise / 2

    def rdp(a):
        gauss = {j: j / (2 * sigma**2) for j in range(2, a + 1)}
        logs = [0.0,
                2 * math.log(fraction) + math.log(math.comb(a, 2))
                + math.log(min(4 * math.expm1(gauss[2]), 2 * math.exp(gauss[2])))]
        logs += [j * math.log(fraction) + math.log(math.comb(a, j)) + (j - 1) * gauss[j] + math.log(2)
                 for j in range(3, a + 1)]
        top = max(logs)
        return rounds * (top + math.log(sum(math.exp(v - top) for v in logs))) / (a - 1)

    general = from_renyi(rdp, 1e-5)
    assert 0.5 * general < epsilon(noise, fraction, rounds, 1e-5) <= general * (1 + 1e-9)


def test_a_value_written_down(accountant):
    """dp-accounting 0.6: a change of the bound should be seen."""
    assert epsilon(1.0, 0.01, 100, 1e-5) == pytest.approx(11.2127, rel=1e-3)


def test_more_noise_fewer_clients_fewer_rounds_cost_less(accountant):
    assert epsilon(4.0, 0.1, 50, 1e-5) < epsilon(2.0, 0.1, 50, 1e-5)
    assert epsilon(2.0, 0.05, 50, 1e-5) < epsilon(2.0, 0.1, 50, 1e-5)
    assert epsilon(2.0, 0.1, 25, 1e-5) < epsilon(2.0, 0.1, 50, 1e-5) < epsilon(2.0, 1.0, 50, 1e-5)


def test_no_noise_promises_nothing():
    assert epsilon(0.0, 0.1, 10, 1e-5) == math.inf


@pytest.mark.parametrize(("arguments", "words"), [
    ((-1.0, 0.1, 10, 1e-5), "noise must not be negative, got -1.0"),
    ((1.0, 0.0, 10, 1e-5), r"fraction must be in \(0, 1\], got 0.0"),
    ((1.0, 0.1, 0, 1e-5), "rounds must be at least 1, got 0"),
    ((1.0, 0.1, 10, 1.0), r"delta must be in \(0, 1\), got 1.0")])
def test_numbers_out_of_range_are_refused(refused, arguments, words):
    with refused(words):
        epsilon(*arguments)


def test_without_the_library_one_line_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with refused(r"needs dp-accounting: pip install 'askew\[privacy\]'"):
        epsilon(1.0, 0.1, 10, 1e-5)


def test_it_is_part_of_the_package():
    assert askew.privacy.epsilon is epsilon
