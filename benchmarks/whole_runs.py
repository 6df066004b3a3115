"""How long whole runs take, evaluation included: fednnnn2020 on CIFAR-10, hsu2019's 10,000 rounds, alone and among 40.

    python benchmarks/whole_runs.py --data-dir DIR [--runs fednnnn,hsu,hsu40] [--rounds N] [--json FILE]

Compilation counts. With --rounds a run is cut short, and its time is given as it is, not as what the whole would take.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from askew.core.recipe import Recipe
from askew.papers.fednnnn2020 import items as fednnnn2020
from askew.papers.hsu2019 import items as hsu2019
from askew.runs.environment import describe_environment
from askew.runs.sweep import sweep

RUNS: dict[str, list[Recipe]] = {
    "fednnnn": [fednnnn2020.recipes("CIFAR-10", "non-IID-B")["FedNNNN"]],
    "hsu": [hsu2019.recipe(0.2, 0.05, 1, 0.01)],
    "hsu40": [hsu2019.recipe(alpha, 0.05, 1, lr) for alpha in hsu2019.ALPHAS for lr in (0.001, 0.003, 0.01, 0.03, 0.1)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--rounds", type=int, help="instead of all of the paper's")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if unknown := set(options.runs.split(",")) - set(RUNS):
        parser.error(f"--runs: unknown {', '.join(sorted(unknown))}; choose among {', '.join(RUNS)}")
    rows: list[dict[str, Any]] = []
    for name in options.runs.split(","):
        wanted = [recipe.replace(rounds=options.rounds or recipe.rounds) for recipe in RUNS[name]]
        times: list[float] = []

        def on_round(i: int, record: Any, recipe: Recipe, times: list[float] = times) -> None:
            if i == 0:
                times.append(time.perf_counter())

        began = time.perf_counter()
        outcomes = sweep(wanted, engine="vectorised", precision=options.precision, device=options.device,
                         data_dir=options.data_dir, on_round=on_round)
        seconds = time.perf_counter() - began
        half = len(times) // 2
        rows.append({"what": name, "precision": options.precision, "configurations": len(wanted),
                     "rounds": wanted[0].rounds, "seconds": round(seconds, 1),
                     "seconds_each": round(seconds / len(wanted), 1), "first_round_s": round(times[0] - began, 1),
                     "later_round_ms": round(1e3 * (times[-1] - times[half]) / max(1, len(times) - 1 - half), 2),
                     "accuracy": [None if outcome.diverged else round(outcome.accuracy, 4) for outcome in outcomes]})
        print(rows[-1], flush=True)  # noqa: T201
    if options.json:
        result = {"environment": describe_environment(options.device), "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
