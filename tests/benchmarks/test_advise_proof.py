"""The proof of `askew advise`: page and proof.json are what the published atlas gives, with the contest as it is."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
pytest.importorskip("pandas")

import advise_proof
from advise_federations import federations

FOLDER = ROOT / "results" / "advise"
STORED = json.loads((FOLDER / "proof.json").read_text())


def test_the_page_has_the_stored_proof() -> None:
    assert advise_proof.page(STORED) in (ROOT / "docs" / "advise.md").read_text(encoding="utf-8")


def test_at_least_forty_federations_of_every_kind() -> None:
    told = STORED["told"]
    assert len(told) == STORED["federations"] >= 40
    assert {row["skew"] for row in told} == {"iid", "dirichlet", "shards", "emd", "quantity", "noise", "natural"}
    assert {row["data"] for row in told} == {"digits", "mnist", "cifar", "speech", "cancer", "wine"}
    assert {row["federation"] for row in told} <= {federation.name for federation in federations("x")}


@pytest.mark.slow
def test_the_contest_by_look_up_gives_the_proof_again() -> None:
    """Whoever changes the contest holds it again on 53 federations, without training, and publishes what comes out."""
    proof = json.loads(json.dumps(advise_proof.judge(advise_proof.read(FOLDER))))
    assert proof["told"] == STORED["told"]
    assert proof["choosers"] == STORED["choosers"]
    assert proof["advise"] == STORED["advise"]
