"""The page as a browser shows it, without the net: drawn, quiet, safe, and answering to its buttons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser, browser

from askew.core.recipe import Recipe
from askew.report.page import write_page
from askew.runs.sweep import grid, sweep

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install Debian's package chromium")
SHOWN = "[...document.querySelectorAll('.plot')].filter((plot) => plot.offsetParent !== null)"
WAIT = "new Promise((done) => setTimeout(done, 300))"


@pytest.fixture(scope="module")
def page(runs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page([runs.comparison], tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def opened(tab: Browser, page: Path) -> Browser:
    """With the page in its tab; tests leave it as they found it, for opening takes a second."""
    tab.problems.clear()
    if tab.tell("innerWidth") != 1280 or tab.tell("document.documentElement.dataset.theme") != "light":
        tab.look(1280)
        tab.open(page)
    return tab


@pytest.mark.parametrize(("width", "theme"), [
    (390, "dark"), (1280, "light"), *(pytest.param(width, theme, marks=pytest.mark.slow)
                                      for width, theme in [(390, "light"), (768, "dark"), (1280, "dark")])])
def test_every_plot_is_drawn_and_nothing_complains(tab: Browser, page: Path, width: int, theme: str) -> None:
    tab.problems.clear()
    tab.requests.clear()
    tab.look(width, theme)
    tab.open(page)
    assert tab.tell(f"{SHOWN}.length") >= 9
    marks = ".scatterlayer path, .barlayer path, .boxlayer path, .heatmaplayer image"
    assert tab.tell(f"{SHOWN}.filter((plot) => !plot.querySelector('{marks}')).map((plot) => plot.ariaLabel)") == []
    assert tab.tell("document.documentElement.dataset.theme") == theme
    assert tab.tell("document.documentElement.scrollWidth") <= width  # nothing sticks out at the side
    assert tab.problems == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_names_are_text_wherever_they_stand(opened: Browser, runs: Any) -> None:
    assert opened.tell("typeof boom") == "undefined"
    assert opened.tell("document.querySelectorAll('img, main a, svg a, [onerror], [onload]').length") == 0
    body = opened.tell("document.body.innerText")
    for name in ("</script><script>boom()</script>", '<a href="https://example.org/x">click</a>', "fedcd"):
        assert name in body
    texts = opened.tell("[...document.querySelectorAll('.plot text')].map((text) => text.textContent)")
    assert any(text.startswith("<a href=") for text in texts)  # at the side of the box plots: shown, and no link
    assert any(text.startswith("--c0") for text in texts)  # a client's name, and no colour
    assert not any("&lt;a" in text or "#1f77" in text for text in texts)


def test_a_script_that_got_in_would_not_run(opened: Browser) -> None:
    opened.tell("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">'), "
                "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 2'}))")
    opened.tell(WAIT)
    opened.tell("document.querySelectorAll('img').forEach((image) => image.remove())")
    assert opened.tell("typeof window.ran") == "undefined"
    assert any("Content Security Policy" in problem for problem in opened.problems)


def test_a_chip_hides_its_line_in_every_plot_and_shows_it_again(opened: Browser) -> None:
    group = opened.tell("document.querySelector('#curves .chip').dataset.group")
    lines = (f"{SHOWN}.flatMap((plot) => plot.data).filter((trace) => trace.legendgroup === '{group}')"
             ".map((trace) => trace.visible)")
    before = opened.tell(lines)
    assert len(before) >= 3
    assert all(before)
    opened.tell("document.querySelector('#curves .chip').click()")
    opened.wait(f"{lines}.every((visible) => visible === false)")
    pressed = f"[...document.querySelectorAll('.chip[data-group={group}]')].map((chip) => chip.ariaPressed)"
    assert set(opened.tell(pressed)) == {"false"}
    opened.tell("document.querySelector('#curves .chip').click()")
    opened.wait(f"{lines}.every((visible) => visible === true)")


def test_a_double_click_shows_one_line_alone_and_another_all(opened: Browser) -> None:
    double = "document.querySelector('#curves .chip').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))"
    pressed = "[...document.querySelectorAll('#curves .option:not([hidden]) .chip')].map((chip) => chip.ariaPressed)"
    opened.tell(double)
    assert opened.tell(pressed) == ["true", "false", "false"]
    opened.tell(double)
    assert opened.tell(pressed) == ["true"] * 3


def test_a_choice_of_a_run_holds_for_the_whole_page(opened: Browser) -> None:
    assert opened.tell("document.querySelectorAll('select[data-key=run]').length") >= 4
    label = opened.tell("document.querySelector('#clients select').options[1].text")
    opened.tell("(() => { const select = document.querySelector('#clients select'); select.selectedIndex = 1; "
                "select.dispatchEvent(new Event('change')); })()")
    chosen = opened.tell("['population', 'clients', 'classes', 'dropped'].map((name) => "
                         "document.querySelector(`#${name} select`).selectedOptions[0].text)")
    assert set(chosen) == {label}
    opened.wait(f"{SHOWN}.every((plot) => plot.querySelector('.main-svg'))")
    assert opened.problems == []


def test_the_theme_can_be_changed_and_plots_follow(opened: Browser) -> None:
    axis = "getComputedStyle(document.querySelector('#curves .xtick text')).fill"
    assert opened.tell("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    light = opened.tell(axis)
    opened.tell("document.getElementById('theme').click()")
    assert opened.tell("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    opened.wait(f"{axis} !== '{light}'")
    opened.tell("document.getElementById('theme').click()")
    opened.wait(f"{axis} === '{light}'")


def test_dragging_zooms(opened: Browser) -> None:
    left, top, width, height = opened.tell(
        "(() => { const plot = document.querySelector('#curves .nsewdrag'); "
        "plot.scrollIntoView({block: 'center', behavior: 'instant'}); "
        "const r = plot.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    before = opened.tell("document.querySelector('#curves .plot').layout.xaxis.range")
    places = [(0.3, 0.3, "mousePressed"), (0.5, 0.5, "mouseMoved"), (0.7, 0.7, "mouseMoved"),
              (0.7, 0.7, "mouseReleased")]
    for x, y, kind in places:
        opened.call("Input.dispatchMouseEvent", type=kind, x=left + x * width, y=top + y * height, button="left",
                    buttons=0 if kind == "mouseReleased" else 1, clickCount=1)
    opened.tell(WAIT)
    after = opened.tell("document.querySelector('#curves .plot').layout.xaxis.range")
    assert before[0] < after[0] < after[1] < before[1]


def test_it_prints_with_its_plots(opened: Browser) -> None:
    content = opened.pdf()
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    assert 2 <= pages <= 20
    assert opened.tell("document.documentElement.dataset.theme") == "light"
    opened.wait(f"{SHOWN}.every((plot) => plot.clientWidth >= plot.querySelector('.main-svg').clientWidth)")
    assert opened.problems == []


def test_no_button_of_a_plot_sends_anything(opened: Browser) -> None:
    titles = opened.tell("[...new Set([...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title))]")
    assert sorted(titles) == ["Download plot as a PNG", "Pan", "Reset axes", "Zoom"]


@pytest.mark.slow
def test_fifty_runs_are_drawn_and_the_file_is_small(tab: Browser, tmp_path: Path) -> None:
    """How fast, `benchmarks/report_page.py` measures."""
    recipes = grid(Recipe(rounds=5), {"sgd.lr": [0.01, 0.03, 0.1, 0.2, 0.3], "epochs": [1, 2], "seed": range(5)})
    folders = [tmp_path / f"{i:03d}" for i in range(len(recipes))]
    sweep(recipes, folders=folders)
    page = write_page(folders, tmp_path / "page.html")
    assert page.stat().st_size < 10e6
    tab.problems.clear()
    tab.look(1280)
    tab.open(page)
    assert tab.tell(f"{SHOWN}.length") >= 5
    assert tab.problems == []
