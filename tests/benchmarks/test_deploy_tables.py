"""The tables of docs/deploy.md are those of the stored results, and these are what is promised."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install -e '.[test,flower]'")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from deploy import equality_table, faults_table

PAGE = (ROOT / "docs" / "deploy.md").read_text()


def stored(what: str) -> dict:
    return json.loads((ROOT / "results" / "deploy" / f"{what}.json").read_text())


def test_the_page_has_the_tables_of_the_stored_results() -> None:
    assert equality_table(stored("equality")) in PAGE
    assert faults_table(stored("faults")) in PAGE


def test_the_curves_are_those_of_every_engine() -> None:
    rows = stored("equality")["rows"]
    assert len(rows) == 5
    for method, row in rows.items():
        assert len(row["flower"]) == 5
        assert max(row["largest_difference"].values()) <= 1e-6, method
