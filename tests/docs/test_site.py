"""The site builds without a warning, all of its links lead somewhere, and it asks nobody else for anything."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import askew
from askew.core import registry

ROOT = Path(__file__).parents[2]
LOADS = {"src", "srcset", "poster", "data"}  # attributes whose targets a browser fetches by itself


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.places.add(value)
            if value and (key in LOADS or (key == "href" and tag == "link")):
                self.loads.append(value)
            elif value and key == "href":
                self.links.append(value)


@dataclass(frozen=True)
class Site:
    """Args:
        pages: by their places in the folder.
    """

    folder: Path
    pages: dict[str, Page]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """As `make docs` builds it."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'askew[docs]'")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: pip install 'askew[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT,
                          capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    return Site(folder, {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")})


@pytest.mark.slow
def test_all_links_lead_somewhere(site: Site) -> None:
    wrong = []
    for name, page in site.pages.items():
        if name == "404.html":  # whose links are those of the server's root
            continue
        for link in [*page.links, *page.loads]:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            path = (site.folder / name).parent / target if target else site.folder / name
            path = path / "index.html" if path.is_dir() else path
            there = os.path.relpath(path, site.folder)
            if not path.exists() or (anchor and there in site.pages and anchor not in site.pages[there].places):
                wrong.append(f"{name}: {link}")
    assert not wrong, wrong[:20]


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Site) -> None:
    fetched = [f"{name}: {link}" for name, page in site.pages.items() for link in page.loads
               if re.match(r"(https?:)?//", link)]
    styles = [path.name for path in site.folder.rglob("*.css")
              if re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8"))]
    assert not fetched + styles


@pytest.mark.slow
def test_lists_and_code_are_not_run_into_paragraphs(site: Site) -> None:
    """The site's Markdown wants an empty line before a list, which others do without."""
    wrong = [name for name, page in site.pages.items()
             if any(re.search(r"\n(- |```)", text) for text in re.findall(r"<p>(.*?)</p>", page.text, re.DOTALL))]
    assert not wrong


@pytest.mark.slow
def test_every_method_piece_and_public_name_has_its_place(site: Site) -> None:
    for name in registry.names("method"):
        text = site.pages[f"methods/{name}.html"].text
        for heading in ("Pieces", "What it asks for", "Equations", "Measured", "To cite"):
            assert f">{heading}<" in text, (name, heading)
        assert "secure aggregation" in text
    assert "collapse" in site.pages["methods/scaffold.html"].text  # what somebody wrote stays
    for kind in set(registry.KINDS) - {"method"}:
        places = {place.rpartition(".")[2] for place in site.pages[f"pieces/{kind}.html"].places}
        # Other tests may have registered pieces of their own.
        ours = {name for name in registry.names(kind) if registry.find(kind, name).__module__.startswith("askew.")}
        assert ours <= places, kind
    for name in askew.__all__:
        assert "doc-" in site.pages[f"api/{name}.html"].text, name


def test_a_notebook_becomes_a_page() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'askew[docs]'")
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    outputs = [{"output_type": "stream", "text": ["0.5\n", "0.6\n"]},
               {"output_type": "display_data", "data": {"image/png": "aGVsbG8=\n", "text/plain": ["<Figure>"]}},
               {"output_type": "execute_result", "data": {"text/html": ["<b>1</b>"], "text/plain": ["1"]}},
               {"output_type": "execute_result", "data": {"text/plain": ["2"]}}]
    cells = [{"cell_type": "markdown", "source": ["# First\n", "steps"]},
             {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": outputs}]
    assert hooks._notebook({"cells": cells}) == (
        "# First\nsteps\n\n```python\nx = 1\nx\n```\n\n```text\n0.5\n0.6\n```\n\n"
        "![](data:image/png;base64,aGVsbG8=)\n\n<b>1</b>\n\n```text\n2\n```\n")
