"""A small paper of our own on the embedded digits, run through `askew.papers`: one item for each kind of figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from askew.core.recipe import Recipe
from askew.papers import archetype_measures, numbers
from askew.papers.item import Claim, Item, Plot, Row
from askew.papers.run import reproduce
from askew.papers.store import Results
from askew.pieces.methods import fedcd
from askew.runs.compare import compare
from askew.runs.folders import mark
from askew.runs.sweep import grid, sweep

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


HOSTILE = ("</script><script>boom()</script>", "<img src=x onerror=boom()>", '"><svg onload=boom()>', "{{ 7 * 7 }}",
           '<a href="https://example.org/x">click</a>', "--c0", "&lt;b&gt;", "%{customdata[0]}", "naïve 数据 😀 $x$")


@dataclass(frozen=True)
class Runs:
    """Folders of finished runs, for pages."""

    comparison: Path
    sweep: Path


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A comparison whose methods, clients and classes have hostile names, with every probe, and a sweep of digits."""
    folder = tmp_path_factory.mktemp("runs for pages")
    rows = [f"{i % 7},{(i * i) % 5},{_quoted(HOSTILE[i % 3])},{_quoted(HOSTILE[i % 9])}" for i in range(270)]
    (folder / "t.csv").write_text("a,b,kind,site\n" + "\n".join(rows) + "\n", encoding="utf-8")
    base = Recipe(data=f"table(path={str(folder / 't.csv')!r}, label='kind', client='site')", population="natural()",
                  model="mlp(hidden=[4])", rounds=4, probes=["update_norms(per='layer')", "weight_divergence()",
                                                             "sign_cancellation()"], adversity="drop_out(share=0.3)")
    compare({HOSTILE[0]: base.replace(name=HOSTILE[0]), HOSTILE[4]: base.replace(name=HOSTILE[4], epochs=2),
             "fedcd": fedcd(base, milestones=[1, 2])}, [0, 1], out=folder / "comparison")
    for path in (folder / "comparison").glob("*/evaluation.json"):
        evaluation = json.loads(path.read_text(encoding="utf-8"))
        evaluation["clients"]["name"] = list(HOSTILE)
        path.write_text(json.dumps(evaluation), encoding="utf-8")
    short = Recipe(rounds=3, model="mlp(hidden=[8])")
    recipes = grid(short, {"sgd.lr": [0.1, 0.3], "seed": [0, 1]})
    sweep(recipes, folders=[folder / "sweep" / f"{i:03d}" for i in range(len(recipes))])
    mark(folder / "sweep", "sweep")
    return Runs(folder / "comparison", folder / "sweep")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
