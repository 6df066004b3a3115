"""How it was made: recipes, machine and versions, and what to cite."""

from __future__ import annotations

import json
from typing import Any

from askew.core.errors import AskewError
from askew.papers import citations
from askew.report.page.blocks import Code, Section, Table, Text
from askew.report.page.report import Report, Run

_MOST_RECIPES = 60


def section(report: Report) -> Section:
    blocks: list[Any] = [Table(["", ""], _environment(report))] if _environment(report) else []
    cited, unknown = _cited(report)
    if cited:
        blocks.append(Code(f"What to cite: BibTeX of {len(cited)} work{'s' if len(cited) > 1 else ''}",
                           "\n\n".join(cited.values())))
    if unknown:
        blocks.append(Text(f"askew knows no citation of {', '.join(unknown)}.", is_note=True))
    for series in report.ranked[:_MOST_RECIPES]:
        where = f" ({series.first.folder.name})" if series.first.folder else ""
        blocks.append(Code(f"Recipe: {series.label}{where}", series.first.recipe.to_toml()))
    if len(report.series) > _MOST_RECIPES:
        blocks.append(Text(f"Of {len(report.series)} recipes, the first {_MOST_RECIPES}; the others lie in their "
                           "folders as recipe.toml.", is_note=True))
    return Section("about", "How it was made", blocks)


def _environment(report: Report) -> list[list[str]]:
    """One row for each fact, with all values that runs have of it."""
    facts: dict[str, list[str]] = {}
    for series in report.series:
        for run in series.runs:
            for name, value in _facts_of(run).items():
                if value not in facts.setdefault(name, []):
                    facts[name].append(value)
    started = sorted(facts.pop("started", []))
    if started:
        facts["started"] = [started[0] if len(started) == 1 else f"{started[0]} to {started[-1]}"]
    return [[name, "; ".join(values[:4]) + ("; …" if len(values) > 4 else "")] for name, values in facts.items()]


def _facts_of(run: Run) -> dict[str, str]:
    versions = run.environment.get("versions")
    flat = {**(versions if isinstance(versions, dict) else {}), **run.environment}
    return {str(name).replace("_", " "): value if isinstance(value, str) else json.dumps(value)
            for name, value in flat.items() if name != "versions" and value not in (None, {}, [])}


def _cited(report: Report) -> tuple[dict[str, str], list[str]]:
    """Key -> BibTeX of all methods, and the names that none is known of."""
    entries: dict[str, str] = {}
    unknown: list[str] = []
    for name in dict.fromkeys(part for series in report.series for part in series.first.recipe.name.split("+")):
        try:
            entries |= {key: citations.entries()[key] for key in citations.sources(name)}
        except AskewError:
            unknown.append(name)
    return entries, unknown
