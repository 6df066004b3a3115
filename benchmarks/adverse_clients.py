"""What clients that fail cost: accuracy with dropouts, nonsense and wrong labels, with and without a guard.

    python benchmarks/adverse_clients.py results/adverse/digits.json

About 2 minutes on one core. The federation is the default one: ten clients with two shards of the digits each, 50
rounds. Every number is after the last round, mean and standard deviation over three seeds; all methods are judged on
each client's own mixture of classes (`judge="devices"`), since FedCD gives clients models of their own. See
docs/adverse-clients.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from askew.core import registry
from askew.core.files import write_json
from askew.core.recipe import Recipe
from askew.runs.environment import describe_environment
from askew.runs.result import Result
from askew.runs.sweep import sweep

SEEDS = (0, 1, 2)
METHODS = ("fedavg", "scaffold", "fednnnn", "median", "fedcd")
GUARD = "leave_out()"
# name -> adversities, guard
TROUBLES: dict[str, tuple[tuple[str, ...], str | None]] = {
    "none": ((), None),
    "none, guard": ((), GUARD),
    "30% drop out": (("drop_out(0.3)",), None),
    "30% drop out, 5% send NaN, guard": (("drop_out(0.3)", "send_nan(0.05)"), GUARD),
    "the slow half is late": (("straggle(deadline=1.4)",), None),
    "one client sends 1e6 times its update": (("send_scaled(1e6, clients=[3])",), None),
    "one client sends 1e6 times its update, guard": (("send_scaled(1e6, clients=[3])",), GUARD),
    "two clients flip their signs": (("flip_sign(clients=[3, 6])",), None),
    "20% of labels wrong": (("flip_labels(0.2)",), None),
    "40% of labels wrong": (("flip_labels(0.4)",), None),
}
Row = dict[str, Any]


def recipe_of(method: str, trouble: str, seed: int, rounds: int = 50) -> Recipe:
    adversity, guard = TROUBLES[trouble]
    base = Recipe(adversity=adversity, guard=() if guard is None else guard, judge="devices", seed=seed, rounds=rounds,
                  evaluate_every=rounds)
    made: Recipe = registry.build("method", method, base=base)
    return made


def row_of(method: str, trouble: str, results: list[Result]) -> Row:
    """What the seeds came to; one that broke off has no accuracy."""
    whole = [result for result in results if result.diverged is None]
    accuracies = [result.accuracy for result in whole]
    dropped: Counter[str] = sum((Counter(result.dropped) for result in results), Counter())
    finite = all(bool(torch.isfinite(v).all()) for result in whole for v in result.model.values())
    return {"method": method, "trouble": trouble, "accuracies": accuracies, "broke_off": len(results) - len(whole),
            "finite": finite, "dropped_per_run": {reason: count / len(results) for reason, count in dropped.items()}}


def table(rows: list[Row]) -> str:
    """Markdown: accuracy in percent, mean and standard deviation; what was left out of a run of FedAvg."""
    found = {(row["method"], row["trouble"]): row for row in rows}

    def cell(row: Row) -> str:
        if row["broke_off"]:
            return f"{row['broke_off']} of {len(SEEDS)} broke off"
        return f"{100 * np.mean(row['accuracies']):.1f} ± {100 * np.std(row['accuracies'], ddof=1):.1f}"

    def left_out(row: Row) -> str:
        return ", ".join(f"{count:.0f} {reason.replace('_', ' ')}" for reason, count in row["dropped_per_run"].items())

    lines = [["what goes wrong", *METHODS, "left out of 500 updates (fedavg)"], ["---"] * (len(METHODS) + 2)]
    lines += [[trouble, *(cell(found[method, trouble]) for method in METHODS), left_out(found["fedavg", trouble])]
              for trouble in TROUBLES]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    cases = [(method, trouble) for method in METHODS for trouble in TROUBLES]
    results = iter(sweep([recipe_of(*case, seed) for case in cases for seed in SEEDS]))
    rows = [row_of(*case, [next(results) for _ in SEEDS]) for case in cases]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(given.out, {"what": str(__doc__).splitlines()[0], "seeds": SEEDS,
                           "environment": describe_environment("cpu"), "rows": rows})
    print(table(json.loads(given.out.read_text())["rows"]))  # noqa: T201


if __name__ == "__main__":
    main()
