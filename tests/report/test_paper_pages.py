from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from askew.core.errors import AskewError
from askew.papers import numbers
from askew.papers.citations import entries
from askew.papers.item import StandIn
from askew.papers.papers import PAPERS
from askew.papers.run import reproduce
from askew.papers.store import Results
from askew.papers.summary import summarise
from askew.papers.verdict import rules
from askew.report.paper_page import main, title, write_pages

if TYPE_CHECKING:
    from conftest import Measured

PAPER = "zhao2018"
pytestmark = pytest.mark.usefixtures("printed_numbers")


def pages(measured: Measured, docs: Path, *names: str) -> str:
    docs.mkdir(exist_ok=True)
    write_pages(measured.folder, docs, {PAPER: [measured.items[name] for name in names or measured.items]})
    return (docs / "papers" / f"{PAPER}.md").read_text()


@pytest.fixture(scope="module")
def docs(measured: Measured, printed_text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the whole small paper."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / PAPER).mkdir()
    (folder / PAPER / "numbers.toml").write_text(printed_text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "FOLDER", folder)
        pages(measured, folder / "docs")
    return folder / "docs"


@pytest.fixture
def page(docs: Path) -> str:
    return (docs / "papers" / f"{PAPER}.md").read_text()


def section(page: str, name: str) -> str:
    return page.split(f"### {name}: ")[1].split("\n### ")[0].split("\n## ")[0]


def test_claims_say_whether_they_hold(page: str) -> None:
    assert "| Skew costs accuracy | section 1 | yes (learning) |" in page
    assert "| Skew helps | section 2 | **no** (learning) |" in page
    assert "| It converges | section 3 | not measured (unrun) |" in page


def test_a_claim_about_a_run_that_diverged_stays_open(measured: Measured, tmp_path: Path) -> None:
    learning = measured.items["learning"]
    wild = replace(learning, name="wild", rows=(learning.rows[0], replace(learning.rows[1], recipes=tuple(
        recipe.with_setting("sgd.lr", 1e38) for recipe in learning.rows[1].recipes))))
    results = Results(tmp_path / "results", "full")
    reproduce([wild], results, seeds=1, work=tmp_path / "work", engine="vectorised")
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "results", tmp_path / "docs", {PAPER: [wild]})
    page = (tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text()
    assert "| Skew costs accuracy | section 1 | open: runs diverged or ended at chance (wild) |" in page
    assert "| one class each | 1 diverged |" in page
    assert "By variant" not in page
    (recipe,) = wild.rows[1].recipes
    two = replace(wild.rows[1], recipes=(recipe, recipe.with_setting("sgd.lr", 2)))
    partly = replace(wild, rows=(wild.rows[0], two))
    write_pages(tmp_path / "results", tmp_path / "docs", {PAPER: [partly]})
    assert "| one class each | not measured |" in (tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text()
    calm = replace(wild, stand_in=StandIn("calm", lambda recipe: recipe.with_setting("sgd.lr", 0.3)))
    reproduce([replace(learning, name="calm")], results, seeds=2, work=tmp_path / "work", engine="vectorised")
    write_pages(tmp_path / "results", tmp_path / "docs", {PAPER: [calm]})
    page = (tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text()
    assert "| Skew costs accuracy | section 1 | yes (wild by variant calm) |" in page
    assert "| Skew helps | section 2 | **no** (wild by variant calm) |" in page
    assert "*By variant*: runs of the paper's own set-up diverge" in page
    assert "Of the claims, 2 are judged by a variant" in (tmp_path / "docs" / "papers" / "index.md").read_text()


def test_a_variant_is_called_so_and_not_counted(measured: Measured, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    write_pages(measured.folder, tmp_path / "docs", {PAPER: [replace(measured.items["learning"], variant=True)]})
    page = (tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text()
    assert "*A variant*: not the paper's set-up" in section(page, "learning")
    assert "| Skew costs accuracy | section 1 | yes (variant learning) |" in page
    counted = next(line for line in (tmp_path / "docs" / "papers" / "index.md").read_text().splitlines()
                   if line.startswith("| [zhao2018]"))
    assert {cell.strip() for cell in counted.split("|")[2:-1]} == {"0"}


def test_a_run_at_chance_is_called_so(measured: Measured, tmp_path: Path) -> None:
    learning = measured.items["learning"]
    still = replace(learning, name="still", rows=(replace(learning.rows[0], recipes=tuple(
        recipe.with_setting("sgd.lr", 0.0).replace(rounds=1) for recipe in learning.rows[0].recipes)),), claims=())
    reproduce([still], Results(tmp_path / "results", "full"), seeds=1, work=tmp_path / "work", engine="sequential")
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "results", tmp_path / "docs", {PAPER: [still]})
    text = section((tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text(), "still")
    assert "(at chance) | 1 |" in text


def test_the_index_states_the_rules(docs: Path, page: str) -> None:
    assert f"## Rules\n\n{rules()}\n" in (docs / "papers" / "index.md").read_text()
    assert "[one paragraph of rules](index.md#rules)" in page


def test_many_rows_without_a_number_are_only_counted(measured: Measured, tmp_path: Path) -> None:
    item = measured.items["lengths"]
    unknown = tuple(replace(row, recipes=tuple(r.replace(rounds=99) for r in row.recipes), name=f"{row.name} {k}")
                    for k in range(9) for row in item.rows)
    mixed = replace(item, rows=(*item.rows, *unknown), claims=())
    (tmp_path / "docs").mkdir()
    write_pages(measured.folder, tmp_path / "docs", {PAPER: [mixed]})
    text = section((tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text(), "lengths")
    assert f"{len(unknown)} of {len(mixed.rows)} rows are not measured yet." in text
    assert all(f"| {row.name} |" in text for row in item.rows)
    assert "| not measured |" not in text


def test_numbers_stand_beside_the_papers(measured: Measured, page: str) -> None:
    rows = summarise(measured.items["learning"], measured.results).rows
    ours = rows[0].ours
    cells = f"{ours.mean:.2f} ± {ours.spread:.2f} | 2 | {ours.noise:.2f} | {rows[0].verdict}"
    assert f"| all alike | 95 ± 0.5 | {cells} |" in section(page, "learning")
    assert "verdict" not in section(page, "lengths")  # nothing printed, nothing to compare


def test_it_says_how_it_was_run(page: str) -> None:
    text = section(page, "learning")
    assert "`askew reproduce zhao2018/learning`" in text
    assert "seeds 0, 1" in text
    assert "8 rounds" in text
    assert "fp32" in text
    assert "A note on learning." in text


def test_figures_lie_beside_the_page(measured: Measured, docs: Path, page: str) -> None:
    folder = docs / "papers" / "figures"
    assert {path.name for path in folder.iterdir()} == {f"{PAPER}-{name}.svg" for name in measured.items
                                                        if name != "unrun"}
    for path in folder.iterdir():
        assert f"(figures/{path.name})" in page


def test_what_was_not_run_is_listed_with_its_cost(page: str) -> None:
    assert "| `zhao2018/unrun` | What unrun shows | 2 runs, 1,437,000 images |" in page.split("## Not run")[1]


def test_written_again_it_is_the_same_and_stale_figures_go(measured: Measured, tmp_path: Path) -> None:
    page = pages(measured, tmp_path / "docs", "learning", "unrun")
    stale = tmp_path / "docs" / "papers" / "figures" / f"{PAPER}-renamed.svg"
    stale.write_text("old")
    assert pages(measured, tmp_path / "docs", "learning", "unrun") == page
    assert not stale.exists()


def test_a_row_that_differs_has_a_remark(measured: Measured, tmp_path: Path) -> None:
    # The paper has it the other way round, so that neither number nor ordering fits.
    (numbers.FOLDER / PAPER / "numbers.toml").write_text('[learning.rows]\n"all alike" = 10\n"one class each" = 99\n')
    assert "Why these numbers differ has not been found out." in section(pages(measured, tmp_path / "docs", "learning"),
                                                                         "learning")
    (numbers.FOLDER / PAPER / "remarks.toml").write_text('[learning]\ntext = "We swapped the numbers."\n')
    text = section(pages(measured, tmp_path / "docs", "learning"), "learning")
    assert "We swapped the numbers." in text
    assert "found out" not in text


@pytest.mark.parametrize(("text", "message"), [("[lerning]\ntext = 'x'", r"no item 'lerning'.*learning"),
                                               ("[learning]\nwords = 'x'", r"must have one key, text")])
def test_a_remark_that_would_be_lost_is_refused(measured: Measured, tmp_path: Path, text: str, message: str) -> None:
    (numbers.FOLDER / PAPER / "remarks.toml").write_text(text)
    with pytest.raises(AskewError, match=message):
        pages(measured, tmp_path / "docs", "learning")
    assert not (tmp_path / "docs" / "papers" / f"{PAPER}.md").exists()


def test_the_index_counts_numbers_and_claims(measured: Measured, tmp_path: Path) -> None:
    pages(measured, tmp_path / "docs", "learning", "unrun")
    text = (tmp_path / "docs" / "papers" / "index.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| [zhao2018](zhao2018.md) |"))
    printed, claims = row.split("|")[2:8], row.split("|")[8:13]
    assert int(printed[0]) == sum(map(int, printed[1:])) == 2
    assert [int(cell) for cell in claims] == [3, 1, 1, 0, 1]


def test_reduced_versions_are_not_shown(measured: Measured, tmp_path: Path) -> None:
    item = measured.items["learning"]
    assert reproduce([item], Results(tmp_path / "results", "quick"), work=tmp_path / "work")
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "results", tmp_path / "docs", {PAPER: [item]})
    page = (tmp_path / "docs" / "papers" / f"{PAPER}.md").read_text()
    assert "| `zhao2018/learning` |" in page.split("## Not run")[1]


def test_every_paper_has_a_title() -> None:
    assert title("zhao2018") == "Zhao et al. 2018, Federated Learning with Non-IID Data"
    assert title("fednnnn2020") == ("Nagura et al. 2020, FedNNNN: Norm-Normalized Neural Network Aggregation for Fast "
                                    "and Accurate Federated Learning")
    assert all("{" not in title(paper) for paper in PAPERS)
    assert set(PAPERS) <= set(entries())


@pytest.mark.slow
def test_as_a_command_for_all_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(sys, "argv", ["paper_page", str(tmp_path / "results"), str(tmp_path / "docs")])
    monkeypatch.setattr(numbers, "FOLDER", Path(numbers.__file__).parent)  # the real papers' numbers again
    monkeypatch.delitem(sys.modules, "askew.report.paper_page")  # as if nobody had imported it
    with pytest.raises(SystemExit) as ended:  # what `python -m` does, without the seconds in which Python loads torch
        runpy.run_module("askew.report.paper_page", run_name="__main__")
    assert not ended.value.code
    assert {path.stem for path in (tmp_path / "docs" / "papers").glob("*.md")} == {*PAPERS, "index"}


def test_bad_calls_end_with_one_line_and_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main([str(tmp_path), str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert not (tmp_path / "missing").exists()
