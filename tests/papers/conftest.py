"""A paper of our own: two small tables on the embedded digits."""

from __future__ import annotations

from pathlib import Path

import pytest

import askew
from askew.papers import numbers, papers
from askew.papers.item import Claim, Item, Row

BASE = askew.Recipe(population="iid(clients=4)", batch_size=32, rounds=4, client="sgd(lr=0.3)")
SKEWED = BASE.replace(population="shards(clients=4, shards_per_client=1)")
NUMBERS = """
[table1]
where = "table 1"
unit = "%"
[table1.rows]
IID = 90.0
skewed = {value = 40, spread = 1.5}
lost = {value = 50, about = true}
"""


def quick(recipe: askew.Recipe) -> askew.Recipe:
    return recipe.replace(rounds=2)


TABLE = Item("toy2020", "table1", "What skew costs", (
    Row("IID", (BASE,)),
    Row("skewed", (SKEWED,)),
    Row("lost", (SKEWED,), less_than=(BASE,)),
), quick, quick_rows=("IID", "skewed"), claims=(
    Claim("Skew costs accuracy", "section 1", lambda v: v["IID"] - v["skewed"]),
    Claim("Momentum wins it back", "section 2", lambda v: v["momentum"] - v["skewed"]),  # a row of another item
))
TUNED = Item("toy2020", "figure1", "Tuning", (
    Row("skewed", (SKEWED.replace(name="the same run"),)),
    Row("tuned", tuple(SKEWED.replace(client=f"sgd(lr={lr})") for lr in (0.01, 0.3, 1e30))),
), quick, seeds=2)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Item, Item]:
    """The paper in place of the five, its numbers in place of theirs."""
    (tmp_path / "numbers" / "toy2020").mkdir(parents=True)
    (tmp_path / "numbers" / "toy2020" / "numbers.toml").write_text(NUMBERS)
    monkeypatch.setattr(papers, "PAPERS", ("toy2020",))
    monkeypatch.setattr(papers, "listed", lambda paper: {"table1": lambda: TABLE, "figure1": lambda: TUNED})
    monkeypatch.setattr(numbers, "FOLDER", tmp_path / "numbers")
    return TABLE, TUNED
