"""A small paper of our own on the embedded digits, run through `askew.papers`: one item for each kind of figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from askew.core.recipe import Recipe
from askew.papers import archetype_measures, numbers
from askew.papers.item import Claim, Item, Plot, Row
from askew.papers.run import reproduce
from askew.papers.store import Results
from askew.pieces.methods import fedcd

PAPER = "zhao2018"  # its name only: pages print a paper's title
SKEWED = "shards(clients=10, shards_per_client=1)"
DEVICES = f"hierarchical(clients={archetype_measures.MOST_ARCHETYPES})"
PRINTED = """
[learning]
where = "table 9"
[learning.rows]
"all alike" = {value = 95, spread = 0.5}
"one class each" = 20.5
"""


@dataclass(frozen=True)
class Measured:
    """The items, and where their results are."""

    items: dict[str, Item]
    folder: Path

    @property
    def results(self) -> Results:
        return Results(self.folder, "full")


def small_paper() -> list[Item]:
    base = Recipe(population="iid(clients=10)", client=["sgd(lr=0.3)"], rounds=8)
    skewed = base.replace(population=SKEWED)
    devices = base.replace(population=DEVICES, fraction=0.5)
    personal = fedcd(devices, milestones=[2, 4])

    def with_norms(recipe: Recipe, per: str) -> Recipe:
        return recipe.replace(probes=[f"update_norms(per={per!r})"])

    def item(name: str, rows: list[Row], plot: Plot, claims: tuple[Claim, ...] = (), notes: str = "") -> Item:
        return Item(PAPER, name, f"What {name} shows", tuple(rows), lambda recipe: recipe, plot=plot, claims=claims,
                    notes=notes, seeds=2)

    return [
        item("learning", [Row("all alike", (base,)), Row("one class each", (skewed,))], Plot("curves"),
             (Claim("Skew costs accuracy.", "section 1", lambda v: v["all alike"] - v["one class each"]),
              Claim("Skew helps", "section 2", lambda v: v["one class each"] - v["all alike"])), "A note on learning."),
        item("lengths", [Row("all alike", (with_norms(base, "group"),), "mean N/E"),
                         Row("one class each", (with_norms(skewed, "group"),), "mean N/E")],
             Plot("curves", y_label="length", y=("N", "E"))),
        item("rates", [Row("all alike", (base,)),
                       *(Row(f"rate {lr}", (skewed.with_setting("sgd.lr", lr),), series="skewed", x=lr)
                                                    for lr in (0.1, 0.3))], Plot("points", "rate", log_x=True)),
        item("layers", [Row(name, (with_norms(base, "layer"),), f"mean N/E {name}", series="all alike", x=float(x))
                        for x, name in enumerate(("fc1", "fc2"), 1)], Plot("points", "layer (fc1, fc2)", "N/E")),
        item("archetypes", [Row("FedCD", (personal,)), Row("FedAvg", (devices,)),
                            Row("FedCD, archetype 3", (personal,), "archetype 3")],
             Plot("archetypes", y_label="accuracy", y=("group_accuracy",))),
        item("changes", [Row("FedCD", (personal,), "change_last_10"), Row("FedAvg", (devices,), "change_last_10")],
             Plot("changes", y_label="change")),
        item("preferences", [Row("models", (personal,), "models_preferred")],
             Plot("preferences", y_label="archetype", y=("group_choice",))),
        item("populations", [Row(SKEWED, ()), Row("dirichlet(clients=20, alpha=1)", ())],
             Plot("populations", "share", "client")),
        item("unrun", [Row("all alike", (base.replace(rounds=500),))], Plot("curves"),
             (Claim("It converges.", "section 3", lambda v: v["all alike"] - 99),)),
    ]


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """All items but the last, at full scale and with two seeds."""
    folder = tmp_path_factory.mktemp("small paper")
    items = small_paper()
    assert reproduce(items[:-1], Results(folder / "results", "full"), work=folder / "work")
    return Measured({item.name: item for item in items}, folder / "results")


@pytest.fixture(scope="session")
def printed_text() -> str:
    """The file of the numbers that the small paper prints."""
    return PRINTED


@pytest.fixture
def printed_numbers(printed_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These numbers in place of the real papers'."""
    (tmp_path / PAPER).mkdir()
    (tmp_path / PAPER / "numbers.toml").write_text(printed_text)
    monkeypatch.setattr(numbers, "FOLDER", tmp_path)
