"""What a round of FedCD costs as clients grow in number, 20 of them training; and its memory over 200 rounds.

    python benchmarks/fedcd_clients.py [--json FILE] [--before CHECKOUT]

With `--before`, the folder of an older checkout, both versions take turns, one process each, and the last rounds'
records are compared. Clients have three examples of 8 numbers, one of them for validation, and a linear model;
milestones are after rounds 1, 2 and 3, so that the rounds that are measured have up to eight models.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__)
CLIENTS = (1_000, 10_000, 100_000)
WARM, ROUNDS, SOAK = 4, 3, 200
REPEATS = 3


def simulation(clients: int) -> Any:
    import numpy as np
    import torch

    from askew.core.dataset import Dataset, Examples
    from askew.core.population import Ownership, Population
    from askew.core.recipe import Recipe
    from askew.engine.build import build_task
    from askew.engine.choice import make_engine
    from askew.rounds.simulation import Simulation

    x, y = torch.randn(3 * clients, 8, generator=torch.Generator().manual_seed(0)), torch.arange(3 * clients) % 10
    data = Dataset("made up", Examples(x, y), Examples(x[:1_000], y[:1_000]), tuple(map(str, range(10))))
    mine = np.arange(3 * clients).reshape(clients, 3)
    train, validation = (Ownership(part.ravel(), np.arange(clients + 1) * part.shape[1])
                         for part in (mine[:, :2], mine[:, 2:]))
    population = Population.of(train, y.numpy(), 10, validation=validation, scheme="made up")
    recipe = Recipe(pool="clone_and_delete(milestones=[1, 2, 3])", server=["mean(weights='score')"],
                    model="mlp(hidden=[])", fraction=20 / clients, rounds=10**6, evaluate_every=10**6)
    task = build_task(recipe, data=data, population=population)
    return Simulation(task, make_engine("vectorised", task))


def rounds(clients: int) -> dict[str, Any]:
    run = simulation(clients)
    times = []
    for _ in range(WARM + ROUNDS):
        began = time.perf_counter()
        run.advance()
        times.append(time.perf_counter() - began)
    record = {name: value for name, value in run.last_record.items() if name != "choice"}
    return {"round_s": statistics.median(times[WARM:]), "resident_mib": resident(), "last_record": record}


def soak(clients: int) -> dict[str, Any]:
    """Resident memory after each twentieth of the rounds."""
    run, mib = simulation(clients), []
    for round in range(1, SOAK + 1):
        run.advance()
        if round % (SOAK // 20) == 0:
            mib.append(round_to(resident()))
    return {"rounds": SOAK, "resident_mib": mib,
            "growth_of_the_second_half_mib": round_to(max(mib[10:]) - max(mib[:10]))}


def resident() -> float:
    """MiB of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def round_to(value: float) -> float:
    return float(f"{value:.1f}")


def measured(what: str, clients: int, checkout: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(HERE), "--one", what, "--clients", str(clients)], capture_output=True,
                          text=True, env=environment)
    if done.returncode:
        sys.exit(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--one", choices=["rounds", "soak"], help=argparse.SUPPRESS)
    parser.add_argument("--clients", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps({"rounds": rounds, "soak": soak}[options.one](options.clients)))  # noqa: T201
        return
    from askew.core.files import write_json
    from askew.runs.environment import describe_environment

    checkouts = {**({"before": options.before} if options.before else {}), "now": HERE.parents[1]}
    rows: list[dict[str, Any]] = []
    for clients in CLIENTS:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
        for _ in range(REPEATS):
            for name, checkout in checkouts.items():
                found[name].append(measured("rounds", clients, checkout))
        for name, times in found.items():
            single = [t["round_s"] for t in times]
            rows.append({"clients": clients, "version": name, "round_s": statistics.median(single), "single_s": single,
                         "resident_mib": round_to(max(t["resident_mib"] for t in times))})
            print(rows[-1], flush=True)  # noqa: T201
        if len({json.dumps(t["last_record"]) for times in found.values() for t in times}) > 1:
            sys.exit(f"{clients} clients: the versions' records differ")
    long = measured("soak", CLIENTS[-1], HERE.parents[1])
    print(long)  # noqa: T201
    if options.json:
        about = {"what": str(__doc__).splitlines()[0], "environment": describe_environment("cpu"),
                 "trained_a_round": 20, "n": REPEATS, "records": "the same in all versions"}
        write_json(options.json, {**about, "rows": rows, "soak": {"clients": CLIENTS[-1], **long}})


if __name__ == "__main__":
    main()
