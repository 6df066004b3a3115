"""Rounds of 1,000 clients among 10,000 to 1,000,000: time and memory must not grow with the population.

    python benchmarks/million_clients.py [--json FILE]

FedAvg and SCAFFOLD, whose clients remember a model each, once they have trained; all rounds are evaluated. Each row is
a process of its own, so that its memory is its own; W3's clients (100 samples, B 10) with an MLP 64-64-10. What a
client owns is a list of whole numbers, 8 bytes per sample: that part of the memory is the population itself, drawn
before the first round, and is listed apart.
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
CLIENTS = (10_000, 100_000, 1_000_000)
COHORT, ROUNDS = 1_000, 10


def measure(clients: int, method: str) -> dict[str, Any]:
    sys.path.insert(0, str(HERE))
    from scaling import task_of

    from askew.engine.choice import make_engine
    from askew.rounds.simulation import Simulation

    task = task_of(clients, COHORT, method=method, evaluated=True, rounds=100)
    simulation = Simulation(task, make_engine("vectorised", task))
    before, most, times, used = _resident(), 0.0, [], []
    for _ in range(ROUNDS + 1):
        began, processor = time.perf_counter(), time.process_time()
        simulation.advance()
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - processor)
        most = max(most, _resident())
    memory = simulation.memory
    rows = len(memory.state["place"]) if memory else 0
    return {"round_s": statistics.median(times[1:]), "processor_s": statistics.median(used[1:]),
            "before_mib": before, "rounds_mib": most - before, "rows_of_memory": rows,
            "memory_mib": rows * memory.bytes_per_client / 2**20 if memory else 0.0,
            "population_mib": sum(a.nbytes for a in (task.population.train.indices, task.population.train.offsets,
                                                     task.population.counts)) / 2**20}


def _resident() -> float:
    """MiB of this process in memory now; what drawing the population took for a moment is gone."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure(int(options.one[0]), options.one[1])))
        return
    from askew.runs.environment import describe_environment

    rows = []
    for method in ("fedavg", "scaffold"):
        for clients in CLIENTS:
            done = subprocess.run([sys.executable, __file__, "--one", str(clients), method], capture_output=True,
                                  text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr[-3000:])
            rows.append({"method": method, "clients": clients, "cohort": COHORT, **json.loads(done.stdout)})
            print({key: round(v, 4) if isinstance(v, float) else v for key, v in rows[-1].items()})  # noqa: T201
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"command": " ".join(["python", *sys.argv]), "seed": 0, "rounds": ROUNDS,
                                            "environment": describe_environment("cpu"), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
