"""A page about each method, made from what is known of it: its pieces, demands, equations, measurements, citation."""

from __future__ import annotations

import re
import tomllib
from collections import OrderedDict
from pathlib import Path
from typing import Any

from torch import nn

from askew.core import files, registry
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.papers.citations import cite, sources
from askew.papers.papers import PAPERS
from askew.runs.demands import demands_of
from askew.runs.run import run

EQUATIONS = "methods.md"  # in docs
COMPARISONS = ("compare.json", "compare_others.json")  # in results, on one federation


def method_page(name: str, docs: Path, results: Path) -> str:
    """One method's page, in Markdown; its links are those of a page in `docs/methods`.

    Args:
        docs: the folder with `methods.md`, whose section on the method is taken over. A page `methods/NAME.md` there,
            where somebody wrote one, follows what is known without it.
        results: the folder with the files of `COMPARISONS`.
    """
    page = docs / "methods" / f"{name}.md"
    title, rest = f"# `{name}`", ""
    if page.is_file():
        title, _, rest = files.read_text(page, "page").partition("\n")
    parts = {"Pieces": _pieces(name), "What it asks for": _asks(name), "Equations": equations(name, docs),
             "Measured": _measured(name, results, elsewhere=bool(rest)), "To cite": f"```bibtex\n{cite(name)}\n```"}
    sections = [f"## {heading}\n\n{text}" for heading, text in parts.items()]
    return "\n\n".join([title, _about(name), *sections, rest.strip()]).rstrip() + "\n"


def _about(name: str) -> str:
    text = " ".join((registry.find("method", name).__doc__ or "").split("\n\n")[0].split())
    call = registry.parse("method", name)
    return f"{text}\n\n    askew run --method {call.name}\n    askew compare --methods fedavg,{call.name}"


def _pieces(name: str) -> str:
    """The fields of a recipe that the method changes, as a recipe file has them."""
    plain, changed = (tomllib.loads(recipe.to_toml()) for recipe in (Recipe(), registry.build("method", name)))
    lines = [line for line in registry.build("method", name).to_toml().splitlines()
             if (field := line.partition(" = ")[0]) != "name" and changed[field] != plain[field]]
    if not lines:
        return "A recipe as it is: every client trains, the server takes the mean."
    return "What it changes in a recipe:\n\n```toml\n" + "\n".join(lines) + "\n```"


def _asks(name: str) -> str:
    """Found out from the pieces, the bytes in one round of a small network."""
    layers = {"flat": nn.Flatten(), "fc1": nn.Linear(64, 16), "norm": nn.LayerNorm(16), "relu": nn.ReLU(),
              "fc2": nn.Linear(16, 10)}  # with the layers that methods with private ones name
    result = run(registry.build("method", name, base=Recipe(rounds=1)), model=nn.Sequential(OrderedDict(layers)))
    if result.simulation is None:
        raise AskewError(f"{name}: the run has kept nothing to look at")
    demands = demands_of(result.simulation.task, result.records[-1])
    return "\n".join(["| what | how much |", "|---|---|", *(f"| {what} | {much} |" for what, much in demands.rows())])


def equations(name: str, docs: Path) -> str:
    """The section of `methods.md` whose heading names the method."""
    for section in re.split(r"^## ", files.read_text(docs / EQUATIONS, "page"), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if re.search(rf"\b{name}\b", heading, re.IGNORECASE):
            return re.sub(r"\]\((?!\w+:|#)", "](../", body).replace("](#", f"](../{EQUATIONS}#").strip("\n")
    raise AskewError(f"{docs / EQUATIONS}: no heading names the method {name}; write its section")


def _measured(name: str, results: Path, elsewhere: bool) -> str:
    told: list[str] = []
    for table in (files.read_json(results / file, "results") for file in COMPARISONS):
        rows = {row["method"]: row for row in table["methods"]}
        if name in rows and not told:
            told.append(_gain(rows[name], rows["fedavg"], table))
    told += [f"At the paper's own scale, its numbers beside ours: [{paper}](../papers/{paper}.md)."
             for paper in sources(name) if paper in PAPERS]
    told += ["With numbers of its own: further down."] if elsewhere else []
    return "\n\n".join(told) or ("Not measured beside the others yet; `askew compare --methods "
                                 f"fedavg,{name}` does it on your data.")


def _gain(row: dict[str, Any], plain: dict[str, Any], table: dict[str, Any]) -> str:
    """What it reached in the default job, beside FedAvg."""
    def shown(of: dict[str, Any]) -> str:
        return f"{100 * of['test_accuracy_mean']:.1f} ± {100 * of['test_accuracy_std']:.1f}%"

    beside = "" if row is plain else f"; FedAvg: {shown(plain)}"
    personal = (" Each device chooses a model of its own: on data like its own it is right in "
                f"{100 * row['accuracy_mean']:.1f}% of cases (FedAvg: {100 * plain['accuracy_mean']:.1f}%)."
                if row["personal"] else "")
    return (f"`{row['name']}` in the [default job](../demo.md), `{table['population']}` on the digits: accuracy on the "
            f"whole test set {shown(row)} after {table['rounds']} rounds, mean ± standard deviation over "
            f"{len(row['seeds'])} seeds{beside}.{personal}")
