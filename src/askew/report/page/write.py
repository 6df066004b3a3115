"""Write the page: the sections put into the template, with style, script and plotly inside, so that it needs no net."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from askew.advice.advice import ADVICE
from askew.core import files
from askew.core.arguments import checked
from askew.core.errors import AskewError
from askew.report.page import (
    about,
    advice,
    classes,
    clients,
    curves,
    dropped,
    measures,
    models,
    overview,
    population,
    settings,
    skew_cost,
    traffic,
    updates,
)
from askew.report.page.blocks import Section
from askew.report.page.collect import collect
from askew.report.page.report import Report
from askew.runs.result import Result

HERE = Path(__file__).parent
SECTIONS = (overview, curves, settings, measures, clients, classes, population, skew_cost, models, updates, traffic,
            dropped, about)


@checked
def write_page(sources: Iterable[str | Path | Result], path: str | Path, *, overwrite: bool = False) -> Path:
    """One HTML file that shows runs; it opens from the disk and asks for nothing from elsewhere.

    Args:
        sources: folders of runs, comparisons or sweeps, and results of `askew.run`; all of one task. Or a folder of
            `askew advise`, alone.
        path: the file.
        overwrite: whether a file that exists may be replaced.

    Returns:
        the path.
    """
    path = files.check_new(path, "--out", "name another file, or add --overwrite", overwrite)
    sources = list(sources)
    of_advice = [Path(source) for source in sources
                 if not isinstance(source, Result) and advice.is_advice(Path(source))]
    if of_advice and len(sources) > 1:
        raise AskewError(f"{str(of_advice[0])!r} holds advice, which has a page of its own; name it alone")
    files.write_text(path, advice_page(of_advice[0]) if of_advice else page(collect(sources)))
    return path


def sections(report: Report) -> list[Section]:
    """All that the page shows; what does not apply is left out."""
    return [section for room in SECTIONS if (section := room.section(report)) is not None]


def page(report: Report) -> str:
    """The file's text."""
    return _rendered(*overview.title(report), sections(report))


def advice_page(folder: Path) -> str:
    """That of a folder of `askew advise`."""
    about_advice = advice.read_advice(folder / ADVICE)
    return _rendered(*advice.title(about_advice), advice.sections(about_advice))


def _rendered(title: str, subtitle: str, shown: list[Section]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
                            trim_blocks=True, lstrip_blocks=True)
    scripts = [_plotly(), (HERE / "page.js").read_text(encoding="utf-8")]
    return templates.get_template("page.html").render(
        title=title, subtitle=subtitle, sections=shown, scripts=scripts,
        allowed=" ".join(_allowed(script) for script in scripts),
        style=(HERE / "style.css").read_text(encoding="utf-8"))


def _plotly() -> str:
    """The library's script, from its package; none of its Python is loaded."""
    package = importlib.util.find_spec("plotly")
    script = Path(package.origin).parent / "package_data" / "plotly.min.js" if package and package.origin else None
    if script is None or not script.is_file():
        raise AskewError("the page needs the plotting library plotly, which is not installed; pip install plotly")
    return script.read_text(encoding="utf-8")


def _allowed(script: str) -> str:
    """How the page's policy names a script that may run; no other may, whatever stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
