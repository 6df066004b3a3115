"""The model behind docs/scaling.md: a fit finds the numbers that made the rows, and applies them by its formula."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from scale_page import COHORT_ROWS, WIDTH_ROWS, busiest, exchanged, fit, predicted

MODEL = {"t0": 0.004, "c0": 1e-4, "c1": 2e-8, "x0": 0.002, "speed": 8e7}


def test_a_fit_finds_the_model_that_made_the_rows() -> None:
    rows = [{"what": what, "at": at, "processes": processes, "weights": weights,
             "processor_s": predicted(MODEL, busiest(clients, population, processes), weights, processes)}
            for processes in (1, 2)
            for what, at, clients, population, weights in (
                (COHORT_ROWS, 10, 10, 10_000, 4_810), (COHORT_ROWS, 10_000, 10_000, 10_000, 4_810),
                (WIDTH_ROWS, 16, 100, 1_000, 1_210), (WIDTH_ROWS, 1_024, 100, 1_000, 76_810))]
    assert fit(rows, 8e7) == pytest.approx(MODEL, rel=1e-6)


def test_the_formula_by_hand() -> None:
    """100 clients of 1,000 weights: 0.004 + 100 (0.0001 + 0.00002) = 0.016 s in one process. In each of two 50 of them,
    0.010, and 0.002 + 0.0001 for the exchange, whose 8,000 bytes take 0.008 s at a million bytes per second."""
    assert predicted(MODEL, 100, 1_000, 1) == pytest.approx(0.016)
    assert exchanged(MODEL, 1_000, 2, 1e6) == pytest.approx(0.0101)
    assert predicted(MODEL, 50, 1_000, 2, 1e6) == pytest.approx(0.0201)


def test_the_busiest_of_several() -> None:
    """10 of 100 clients in two processes: 5, and 0.8 of sqrt(10 / 4 * 90 / 99) = 1.51 more; all of them: half."""
    assert busiest(10, 100, 2) == pytest.approx(6.2, abs=0.02)
    assert busiest(100, 100, 2) == 50
    assert busiest(10, 100, 1) == 10
