"""What the site adds to the pages of this folder: methods, pieces and public names one by one, and linked files.

Nothing here is written to the repository: pages are made when the site is built.
"""

from __future__ import annotations

import importlib
import inspect
import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import askew
from askew.core import registry
from askew.report.method_page import method_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OUTSIDE = "repository"  # where files lie in the site that are not in docs
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Folders in the navigation stand for all pages in them."""
    made = {**_generated(), **{str(path.relative_to(DOCS)): "" for path in DOCS.rglob("*.md")}}

    def filled(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            return [{title: [page for part in ([inner] if isinstance(inner, str) else inner) for page in filled(part)]
                     if isinstance(inner, list) or inner.endswith("/") else inner for title, inner in entry.items()}]
        if entry.endswith("/"):
            return sorted((uri for uri in made if posixpath.dirname(uri) == entry[:-1]),
                          key=lambda uri: (not uri.endswith("index.md"), uri))
        return [entry.replace(".ipynb", ".md")]

    config.nav = [page for entry in config.nav for page in filled(entry)]
    return config


def on_files(files: Files, config: Any) -> Files:
    for uri, content in _generated().items():
        if (old := files.get_file_from_path(uri)) is not None:  # what somebody wrote is in the generated page
            files.remove(old)
        files.append(File.generated(config, uri, content=content))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.append(File.generated(config, notebook.src_uri.replace(".ipynb", ".md"),
                                    content=_notebook(json.loads(notebook.content_string))))
    for path in _linked({DOCS / file.src_uri: file.content_string for file in files if file.src_uri.endswith(".md")}):
        files.append(File.generated(config, _place(path), content=_shown(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository lead to their place in the site; lists get the empty line that they need."""
    here = page.file.src_uri
    folder = _source(here).parent

    def moved(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = Path(posixpath.normpath((folder / target).as_posix()))
        if ":" in target or not path.is_relative_to(ROOT):
            return match[0]
        place = _place(path).replace(".ipynb", ".md")
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor})"

    return _outside_code(markdown, lambda text: re.sub(r"(?m)^(?!- |[\s|>#])(.*\S.*)\n(?=- )", r"\1\n\n",
                                                       LINK.sub(moved, text)))


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


_PAGES: dict[str, str] = {}


def _generated() -> dict[str, str]:
    """Place in the site -> content."""
    if not _PAGES:
        _PAGES.update({f"methods/{name}.md": method_page(name, DOCS, ROOT / "results")
                       for name in registry.names("method")})
        _PAGES.update({f"pieces/{kind}.md": _pieces_of(kind) for kind in registry.KINDS if kind != "method"})
        _PAGES.update({f"api/{name}.md": f"# askew.{name}\n\n::: {_home(name)}\n" for name in askew.__all__})
    return _PAGES


def _pieces_of(kind: str) -> str:
    """All pieces of a kind, with their docstrings."""
    found = [registry.find(kind, name) for name in registry.names(kind)]
    parts = [f"::: {function.__module__}.{function.__name__}\n    options: {{heading_level: 2}}" for function in found]
    return "\n\n".join([f"# Pieces: {kind}", "What these are: [kinds of pieces](../kinds.md).", *parts]) + "\n"


def _home(name: str) -> str:
    """The full name of something that `askew` gives out."""
    value = getattr(askew, name)
    return value.__name__ if inspect.ismodule(value) else f"{value.__module__}.{value.__qualname__}"


def _linked(pages: dict[Path, str]) -> set[Path]:
    """Files and folders of the repository outside docs that pages lead to, and those that these lead to."""
    found: set[Path] = set()
    while pages:
        page, text = pages.popitem()
        for target, _ in LINK.findall(text):
            path = Path(posixpath.normpath((page.parent / target).as_posix()))
            if ":" in target or path in found or path.is_relative_to(DOCS) or not path.is_relative_to(ROOT):
                continue
            if path.exists():
                found.add(path)
                if path.suffix == ".md":
                    pages[path] = path.read_text(encoding="utf-8")
    return found


def _place(path: Path) -> str:
    """Where a file of the repository lies in the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    place = f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"
    return f"{place}.md" if path.is_dir() or path.suffix == ".py" else place


def _source(uri: str) -> Path:
    """The file of the repository whose links a page has."""
    inside = uri.removeprefix(f"{OUTSIDE}/")
    return ROOT / inside if inside != uri else DOCS / uri


def _shown(path: Path) -> str:
    """A file as it is, a program as a page, a folder as the list of its files."""
    if path.is_dir():
        listed = [f"- `{file.relative_to(path)}`" for file in sorted(path.rglob("*"))
                  if file.is_file() and "__pycache__" not in file.parts]
        return "\n".join([f"# {path.relative_to(ROOT)}\n", *listed]) + "\n"
    text = path.read_text(encoding="utf-8")
    return f"# {path.relative_to(ROOT)}\n\n```python\n{text}```\n" if path.suffix == ".py" else text


def _notebook(content: dict[str, Any]) -> str:
    """A notebook as a page: its words, its code, and what the code came to."""
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![](data:image/png;base64,{''.join(data['image/png']).strip()})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append("```text\n" + "".join(output.get("text", data.get("text/plain", ""))).rstrip() + "\n```")
    return "\n\n".join(parts) + "\n"


importlib.import_module("askew.catalogue")  # all pieces file themselves
