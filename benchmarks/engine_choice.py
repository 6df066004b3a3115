"""Which engine is the fastest, over networks, batches and cohorts: the table that the rule of `--engine auto` was made from.

    python benchmarks/engine_choice.py [--json FILE] [--threads 1,2] [--passes 2]
    python benchmarks/engine_choice.py --judge FILE     how the rule as it is does on a stored table

Every trial times all engines in turns on a few local steps (`askew.simulate.engines.calibrate`); of several passes over
the grid the best time counts, so that other work on the machine costs a pass and not a row.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from workloads import workload

from askew.core.dataset import Dataset, Examples
from askew.core.recipe import Recipe
from askew.simulate.engines import calibrate
from askew.simulate.run_folder import describe_environment
from askew.simulate.task import Task, build_task
from askew.simulate.threads import examples_per_step, forward_flops

# Network -> shape of its inputs.
NETWORKS: dict[str, tuple[int, ...]] = {
    "mlp(hidden=[16])": (64,), "mlp(hidden=[64])": (64,), "mlp(hidden=[256])": (64,), "mlp(hidden=[1024])": (64,),
    "mlp(hidden=[4096])": (64,), "mlp(hidden=[64, 64, 64, 64])": (64,), "mlp(hidden=[200, 200])": (784,),
    "small_cnn()": (1, 8, 8), "small_cnn( )": (1, 28, 28), "fedcd_cnn()": (3, 32, 32), "hello_edge_cnn()": (1, 50, 10),
    "fednnnn_mnist_cnn()": (1, 28, 28), "mcmahan_mnist_cnn()": (1, 28, 28), "fednnnn_cifar_cnn()": (3, 32, 32),
    "resnet20_fixup()": (3, 32, 32),
}
COHORTS, BATCHES = (1, 2, 4, 10, 32), (10, 50)
HEAVY = 5e8  # floating point operations of a forward pass over a batch, above which two steps of ten clients are trial enough
PEERS = ("W1", "W2", "W3")


def trials() -> Iterator[tuple[dict[str, Any], Task]]:
    """Every row of the grid, then the workloads of `peers.py`."""
    for network, shape in NETWORKS.items():
        generator = torch.Generator().manual_seed(0)
        x, y = torch.randn(6_400, *shape, generator=generator), torch.arange(6_400) % 10
        data = Dataset("random", Examples(x, y), Examples(x[:100], y[:100]), tuple(map(str, range(10))))
        for batch in BATCHES:
            for cohort in COHORTS:
                recipe = Recipe(population=f"iid(clients={cohort})", batch_size=batch, model=network)
                yield {"network": network, "batch": batch, "cohort": cohort}, build_task(recipe, data=data)
    for name in PEERS:
        work = workload(name)
        task = build_task(work.recipe, data=work.data)
        yield {"network": name, "batch": work.recipe.batch_size, "cohort": task.cohort_size}, task


def measure(threads: tuple[int, ...], passes: int) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(passes):
        for what, task in trials():
            row = rows.setdefault(json.dumps(what), {**what, **features(task), "seconds": {}})
            heavy = row["flops_per_step"] > HEAVY
            if heavy and task.cohort_size > 10 and what["network"] not in PEERS:
                del rows[json.dumps(what)]
                continue
            for number in threads:
                torch.set_num_threads(number)
                for timing in calibrate(task, repeats=2 if heavy else 5, clients=10 if heavy else 100, steps=2 if heavy else 4):
                    name = f"{timing.engine}, {number}"
                    if timing.seconds is not None:
                        row["seconds"][name] = min(timing.seconds, row["seconds"].get(name, float("inf")))
            print({**row, "seconds": {k: float(f"{v:.3g}") for k, v in row["seconds"].items()}},  # noqa: T201
                  f"load {os.getloadavg()[0]:.1f}", flush=True)
    return list(rows.values())


def features(task: Task) -> dict[str, Any]:
    """What the rule hangs on."""
    return {"weights": sum(p.numel() for p in task.module.parameters()),
            "flops_per_step": round(forward_flops(task) * examples_per_step(task))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--passes", type=int, default=2)
    options = parser.parse_args()
    rows = measure(tuple(map(int, options.threads.split(","))), options.passes)
    if options.json:
        options.json.write_text(json.dumps({"environment": describe_environment("cpu"), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
