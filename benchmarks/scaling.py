"""How cost grows: with configurations trained together, with the cohort (memory), with the population (time).

    python benchmarks/scaling.py [--json FILE]

Each row is measured in a process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MLP = {"model": "mlp(hidden=[64])", "batch_size": 10}


def _sweep(together: bool) -> dict[str, Any]:
    """24 learning rates of the small MLP on the digits, 10 rounds each."""
    from askew.core.recipe import Recipe
    from askew.simulate.sweep import grid, sweep

    recipes = grid(Recipe(rounds=10, **MLP), {"sgd.lr": [0.01 * 1.2**i for i in range(24)]})
    sweep(recipes[:2], engine="vectorised")  # warm up
    began = time.perf_counter()
    if together:
        sweep(recipes, engine="vectorised")
    else:
        for recipe in recipes:
            sweep([recipe], engine="sequential")
    return {"seconds": time.perf_counter() - began}


def _rounds(clients: int, cohort: int, rounds: int = 5) -> dict[str, Any]:
    """W3's clients (100 samples of 64 numbers, MLP 64-64-10, B 10), with that many of them in a round."""
    import numpy as np
    import torch

    from askew.core.dataset import Dataset, Examples
    from askew.core.population import Ownership, Population
    from askew.core.recipe import Recipe
    from askew.simulate.loop import Simulation
    from askew.simulate.task import build_task
    from askew.simulate.vectorised import Vectorised

    examples = 100_000  # clients beyond a thousand share them: owning is two integers an example, not the data
    x, y = torch.randn(examples, 64, generator=torch.Generator().manual_seed(0)), torch.arange(examples) % 10
    data = Dataset("W3", Examples(x, y), Examples(x[:100], y[:100]), tuple(map(str, range(10))))
    offsets = np.arange(clients + 1, dtype=np.int64) * 100
    owned = Ownership((np.arange(clients * 100, dtype=np.int64) * 7) % examples, offsets)
    counts = np.full((clients, 10), 10)
    population = Population(owned, counts, scheme="W3")
    recipe = Recipe(fraction=cohort / clients, evaluate_every=10**9, rounds=10**9, **MLP)
    task = build_task(recipe, data=data, population=population)
    simulation = Simulation(task, Vectorised(task))
    before = _peak()
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        simulation.advance()
        times.append(time.perf_counter() - began)
    return {"round_s": statistics.median(times[1:]), "peak_mib": _peak(), "before_mib": before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


ROWS: dict[str, Any] = {
    "24 learning rates, one after the other": lambda: _sweep(False),
    "24 learning rates, together": lambda: _sweep(True),
    "cohort 1,000 of 10,000 clients": lambda: _rounds(10_000, 1_000, 3),
    "cohort 10,000 of 10,000 clients": lambda: _rounds(10_000, 10_000, 3),
    "cohort 100 of 1,000 clients": lambda: _rounds(1_000, 100),
    "cohort 100 of 100,000 clients": lambda: _rounds(100_000, 100),
    "cohort 100 of 1,000,000 clients": lambda: _rounds(1_000_000, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(ROWS[options.row]()))  # noqa: T201
        return
    from askew.simulate.run_folder import describe_environment

    rows = []
    for name in ROWS:
        done = subprocess.run([sys.executable, str(HERE / "scaling.py"), "--row", name], capture_output=True, text=True, check=True)
        rows.append({"what": name, **json.loads(done.stdout.splitlines()[-1])})
        print(name, {key: round(value, 3) for key, value in rows[-1].items() if key != "what"}, flush=True)  # noqa: T201
    ratios = {"together": rows[0]["seconds"] / rows[1]["seconds"], "memory_10000_to_1000": rows[3]["peak_mib"] / rows[2]["peak_mib"],
              "time_1000000_to_1000_clients": rows[6]["round_s"] / rows[4]["round_s"]}
    print({key: round(value, 2) for key, value in ratios.items()})  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({"environment": describe_environment("cpu"), "rows": rows, "ratios": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
