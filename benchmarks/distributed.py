"""What several processes gain: rounds of 1 and 2 processes, and what it costs them to exchange a model.

    python benchmarks/distributed.py --json results/scale/cpu-processes.json
    python benchmarks/distributed.py --device cuda --json results/scale/gpu-processes.json

Each number of processes is started twice, in turns (1, 2, 1, 2), and its faster start counts. Beside the time on the
clock there is the processor's: of the process that took most, which is what a machine would take that has nothing else
to do, but for the time in which data travel. With 1 process there is nothing of torch.distributed in the way.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BYTES = 8  # of a number that is summed
WARM_UP = 1  # rounds
ROUNDS = {"W1": 2, "W2": 3, "W3": 7}  # of each workload on a CPU
# Of the MLP: W3's clients, 100 samples each, B 10.
COHORTS = (10, 100, 1_000, 10_000)  # of 10,000 clients
WIDTHS = (16, 64, 256, 1_024)
SUMS = (10_000, 100_000, 1_000_000, 10_000_000)  # numbers


def tasks(device: str, chosen: list[str]) -> dict[tuple[str, Any], tuple[Callable[[], Any], int]]:
    """(what, at) -> (makes a task, rounds to measure)."""
    sys.path.insert(0, str(HERE))
    from scaling import task_of
    from workloads import workload

    from askew.engine.build import build_task

    def named(name: str) -> Any:
        made = workload(name)
        return build_task(made.recipe, data=made.data, device=device)

    rows: dict[tuple[str, Any], tuple[Callable[[], Any], int]] = {
        ("workload", name): (lambda name=name: named(name), ROUNDS[name] if device == "cpu" else 20) for name in ROUNDS}
    rows |= {("clients per round, of 10,000", n): (lambda n=n: task_of(10_000, n, device=device), 3 if n > 1_000 else 7)
             for n in COHORTS}
    rows |= {("width of the MLP, 100 clients", n): (lambda n=n: task_of(1_000, 100, n, device=device), 7)
             for n in WIDTHS}
    return {key: row for key, row in rows.items() if not chosen or str(key[1]) in chosen or key[0] in chosen}


def measure(device: str, chosen: list[str]) -> list[dict[str, Any]]:
    """All rows, in one of the processes."""
    import torch

    from askew.engine.choice import choose, make_engine
    from askew.engine.distributed import Distributed
    from askew.engine.peers import DISTRIBUTED, joined
    from askew.rounds.simulation import Simulation

    peers = joined(DISTRIBUTED) if os.environ.get("WORLD_SIZE", "1") != "1" else None
    world = peers.world if peers else 1
    device = peers.device(device) if peers else device
    rows: list[dict[str, Any]] = []
    for (what, at), (make, rounds) in tasks(device, chosen).items():
        task = make()
        engine = make_engine(choose(task, processes=world), task, compiled=False)
        simulation = Simulation(task, engine if peers is None else Distributed(task, engine, peers))
        clock, processor = [], []
        for i in range(rounds + WARM_UP):
            if peers:
                peers.exchange(None)  # all begin together
            began, used = time.perf_counter(), time.process_time()
            simulation.advance()
            if i >= WARM_UP:
                clock.append(time.perf_counter() - began)
                processor.append(time.process_time() - used)
        mine = {"clock": statistics.median(clock), "processor": statistics.median(processor)}
        every = peers.exchange(mine) if peers else [mine]
        rows.append({"what": what, "at": at, "processes": world, "engine": engine.name,
                     "weights": sum(p.numel() for p in task.module.parameters()), "rounds": rounds,
                     "round_s": max(each["clock"] for each in every),
                     "round_s_fastest": min(clock),
                     "processor_s": max(each["processor"] for each in every),
                     "processor_s_of_all": sum(each["processor"] for each in every)})
    if peers is not None and (not chosen or "exchange" in chosen):
        where = torch.device(device)
        for n in SUMS:
            values, times = torch.ones(n, dtype=torch.float64, device=where), []
            for _ in range(7):
                peers.exchange(None)
                began = time.perf_counter()
                float(peers.sum(values.clone())[0])
                times.append(time.perf_counter() - began)
            rows.append({"what": "exchange", "at": n, "processes": world, "bytes": BYTES * n,
                         "seconds": statistics.median(times[1:]), "seconds_fastest": min(times)})
    return rows if peers is None or peers.leads else []


def start(processes: int, device: str, chosen: list[str], threads: int | None = None) -> list[dict[str, Any]]:
    """All rows with that many processes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        launcher = [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                              str(processes)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads or 1)}
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        done = subprocess.run([sys.executable, *launcher, str(HERE / "distributed.py"), "--device", device,
                               "--rows-to", str(file), *(f"--only={name}" for name in chosen)],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        return [{**row, "threads": threads or 1} for row in json.loads(file.read_text())]


def best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of equal rows the one with the shortest time on the clock."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        key = row["what"], row["at"], row["processes"], row["threads"]
        time_of = row.get("round_s", row.get("seconds"))
        if key not in found or time_of < found[key].get("round_s", found[key].get("seconds")):
            found[key] = row
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--starts", type=int, default=2, help="of each number of processes")
    parser.add_argument("--only", action="append", default=[], help="rows by name: W1, exchange, 1000, ...")
    parser.add_argument("--rows-to", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows_to is not None:
        rows = measure(options.device, options.only)
        if rows:
            options.rows_to.write_text(json.dumps(rows))
        return
    from askew.runs.environment import describe_environment

    # On a CPU a single process may also use two threads: what the processes have to be compared with.
    kinds = [(1, 1), (2, 1)] if options.device != "cpu" else [(1, 1), (1, 2), (2, 1)]
    before, rows = os.getloadavg(), []
    for _ in range(options.starts):
        for processes, threads in kinds:
            rows += start(processes, options.device, options.only, threads)
    rows = best(rows)
    for row in rows:
        print({key: round(v, 5) if isinstance(v, float) else v for key, v in row.items()})  # noqa: T201
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({
            "command": " ".join(["python", *sys.argv]), "seed": 0, "starts": options.starts,
            "load_before": before, "load_after": os.getloadavg(),
            "environment": describe_environment(options.device), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
