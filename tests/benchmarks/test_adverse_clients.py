"""The numbers of docs/adverse-clients.md: those of the stored results, and of a program that runs."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from adverse_clients import METHODS, SEEDS, TROUBLES, recipe_of, row_of, table

import askew

STORED = json.loads((ROOT / "results" / "adverse" / "digits.json").read_text())["rows"]


def test_the_page_has_the_table_of_the_stored_results() -> None:
    assert table(STORED) in (ROOT / "docs" / "adverse-clients.md").read_text()


def test_whatever_is_guarded_ends_with_finite_weights() -> None:
    guarded = [row for row in STORED if TROUBLES[row["trouble"]][1] is not None]
    assert len(guarded) == 3 * len(METHODS)
    assert all(row["finite"] and not row["broke_off"] and len(row["accuracies"]) == len(SEEDS) for row in guarded)


@pytest.mark.parametrize("trouble", ["30% drop out, 5% send NaN, guard", "40% of labels wrong"])
def test_a_row_is_trained(trouble: str) -> None:
    row = row_of("fedavg", trouble, [askew.run(recipe_of("fedavg", trouble, seed, rounds=2)) for seed in (0, 1)])
    assert row["finite"]
    assert len(row["accuracies"]) == 2
