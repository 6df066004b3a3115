"""The five papers as data: whatever they describe must be runnable, measurable and comparable."""

import functools
import os

import pytest
from forked import Forked

import askew
from askew.papers import papers
from askew.papers.measures import measure
from askew.papers.numbers import printed
from askew.papers.plan import at_scale, images, recipes_of

ITEMS = papers.all_items()


def test_addresses():
    assert {item.paper for item in ITEMS} == set(papers.PAPERS)
    assert len({item.address for item in ITEMS}) == len(ITEMS)
    assert papers.find("zhao2018") == tuple(item for item in ITEMS if item.paper == "zhao2018")
    one = ITEMS[3]
    assert papers.find(one.address) == (one,)
    with pytest.raises(askew.AskewError, match=r"unknown paper 'zaho2018'; did you mean 'zhao2018'\?"):
        papers.find("zaho2018/table1")
    with pytest.raises(askew.AskewError, match=f"{one.paper} has no item '{one.name}x'; did you mean "):
        papers.find(one.address + "x")


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_the_list_of_items_names_what_its_builders_build(paper):
    assert list(papers.listed(paper)) == [item.name for item in papers.find(paper)]


def test_only_the_item_asked_for_is_built(monkeypatch):
    def build(name, made):
        made.append(name)
        return papers.Item("toy2020", name, name, (), lambda recipe: recipe)

    built: list[str] = []
    builders = {name: functools.partial(build, name, built) for name in ("table1", "table2")}
    monkeypatch.setattr(papers, "PAPERS", ("toy2020",))
    monkeypatch.setattr(papers, "listed", lambda paper: builders)
    assert papers.find("toy2020/table2")[0].name == "table2"
    with pytest.raises(askew.AskewError, match="toy2020 has no item 'table3'"):
        papers.find("toy2020/table3")
    assert built == ["table2"]
    assert [item.name for item in papers.find("toy2020")] == ["table1", "table2"]
    assert built == ["table2", "table1"]  # each once


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_finding_one_figure_makes_its_recipes_and_no_others(tmp_path):
    """hsu2019's figure 1 trains nothing; the paper's other figures have more than 1,000 recipes."""
    code = ("import sys\n"
            "for name in [name for name in sys.modules if name.startswith('askew.papers')]:\n"
            "    del sys.modules[name]\n"
            "from askew.core.recipe import Recipe; made = []; check = Recipe.__post_init__\n"
            "Recipe.__post_init__ = lambda self: (made.append(1), check(self))[1]\n"
            "from askew.papers.papers import find; find('hsu2019/figure1'); print(len(made))")
    process = Forked(tmp_path, work=functools.partial(exec, code, {}))
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert int(out) == 0


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.address)
def test_an_item_fits_together(item):
    names = [row.name for row in item.rows]
    assert len(set(names)) == len(names)
    assert set(printed(item)) <= set(names)
    assert set(item.quick_rows) <= set(names)
    for row in item.rows:
        measure(row.measure)
    recipes = [recipe for scale in ("full", "quick") for recipe in recipes_of(at_scale(item, scale))]
    for recipe in {id(recipe): recipe for recipe in recipes}.values():
        assert images(recipe) > 0
        assert recipe.seed == 0
    # A claim that asks for a row which does not exist would pass for "not measured" for ever.
    for claim in item.claims:
        assert claim.holds({name: float(i) for i, name in enumerate(names)}) in (True, False, None)
        assert claim.says
        assert claim.where


def test_numbers_are_read_or_refused(toy):
    numbers = printed(toy[0])
    assert numbers["IID"].value == 90
    assert numbers["skewed"].spread == 1.5
    assert numbers["lost"].about
    assert numbers["lost"].where == "table 1"
    assert printed(toy[1]) == {}


@pytest.mark.parametrize(("line", "message"), [
    ("IDI = 90", "has no row 'IDI'"), ("IID = 'high'", "write a number or"), ("IID = {valu = 3}", "write a number or"),
    ("IID = {value = 3, sprad = 1}", "write a number or"),
])
def test_mistakes_in_the_file_of_numbers(line, message, toy, tmp_path):
    (tmp_path / "numbers" / "toy2020" / "numbers.toml").write_text(f"[table1.rows]\n{line}\n")
    with pytest.raises(askew.AskewError, match=message):
        printed(toy[0])
