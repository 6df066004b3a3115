"""How long the page of 50 runs takes to open in a browser, plots drawn, and how large it is.

    python benchmarks/report_page.py [--json FILE]

Ten settings with five seeds each, and 50 different settings, of 30 rounds on the digits; each page is opened four
times in headless Chromium, of which the first opening also starts the library. Needs Debian's package chromium.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser import CHROMIUM, browser

from askew.core.files import write_json
from askew.core.recipe import Recipe
from askew.report.page import write_page
from askew.runs.environment import describe_environment
from askew.runs.sweep import grid, sweep

GRIDS = {"ten settings, five seeds": {"sgd.lr": [0.01, 0.03, 0.1, 0.2, 0.3], "epochs": [1, 2], "seed": range(5)},
         "fifty settings": {"sgd.lr": [round(0.02 * n, 2) for n in range(1, 26)], "epochs": [1, 2]}}
OPENINGS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("no chromium here: install Debian's package chromium")
    rows = []
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        for name, axes in GRIDS.items():
            recipes = grid(Recipe(rounds=30), axes)
            folders = [Path(folder) / name / f"{i:03d}" for i in range(len(recipes))]
            sweep(recipes, folders=folders)
            page = write_page(folders, Path(folder) / f"{name}.html")
            tab.look(1280)
            load = os.getloadavg()[0]
            seconds = [round(tab.open(page), 2) for _ in range(OPENINGS)]
            rows.append({"page": name, "runs": len(recipes), "bytes": page.stat().st_size, "seconds": seconds,
                         "load": round(load, 1)})
            sys.stderr.write(f"{rows[-1]}\n")
    if options.json:
        write_json(options.json, {"environment": describe_environment("cpu"), "rows": rows})


if __name__ == "__main__":
    main()
