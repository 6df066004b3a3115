"""A page of damaged run folders: what can be shown, or one line that says what is wrong; never a traceback."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from fuzzing import formats
from fuzzing.reader import Reader, Trial

from askew.core.recipe import Recipe
from askew.pieces.methods import fedcd
from askew.report.page.collect import collect
from askew.report.page.write import sections
from askew.runs.compare import compare

CASES = [int(os.environ["ASKEW_CASE"])] if "ASKEW_CASE" in os.environ else range(120)
if os.environ.get("ASKEW_LONG") == "1":
    CASES = range(10_000)


def run_folders(folder: Path) -> list[Path]:
    """A small comparison with its table, of which one method has several models and drops clients."""
    short = Recipe(population="iid(clients=4)", model="mlp(hidden=[2])", rounds=2, evaluate_every=1,
                   adversity=["drop_out(share=0.5)"], probes=["update_norms()"])
    compare({"fedavg": short, "fedcd": fedcd(short, milestones=[1])}, [0], out=folder / "c")
    return sorted(path for path in (folder / "c").rglob("*") if path.suffix in (".json", ".jsonl", ".toml"))


def read_page(path: Path) -> Any:
    """All that the page would show."""
    top = next(parent for parent in path.parents if parent.name == "c")
    return [figure.json for section in sections(collect([top])) for figure in figures_in(section.blocks)]


def figures_in(blocks: Any) -> list[Any]:
    """Those in choices, too."""
    inner = [block for one in blocks if one.kind == "choice" for _, option in one.options for block in option]
    return [one for one in blocks if one.kind == "figure"] + (figures_in(inner) if inner else [])


def test_damage_is_shown_or_one_line(tmp_path: Path) -> None:
    trial = Trial(Reader("page", run_folders, read_page, (), formats.in_json), tmp_path)
    kinds: Counter[str] = Counter()
    for number in CASES:
        found = trial.run(number)
        kinds[found.kind] += 1
        assert found.kind != "raw", f"{found.says}\nagain: ASKEW_CASE={number} pytest {Path(__file__).name}"
    if len(CASES) > 1:
        assert min(kinds["ok"], kinds["refused"]) >= 20, kinds
