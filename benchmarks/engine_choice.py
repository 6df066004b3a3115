"""Which engine is the fastest, over networks, batches and cohorts: the table behind the rule of `--engine auto`.

    python benchmarks/engine_choice.py [--threads 2] [--passes 3] [--json FILE]
    python benchmarks/engine_choice.py --judge FILE [--json FILE]     how the rule as it is now does on a stored table

Every trial times all engines in turns on a few local steps (`askew.engine.choice.calibrate`); of several passes over
the grid the best time counts, so that other work on the machine costs a pass and not a row. With one thread allowed,
`parallel` has nothing to offer, and the other two take the times that they have here, since they train on one thread
anyway (but for passes as large as `SHARED`, which are left out of that judgement).
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
from askew.engine.build import build_task
from askew.engine.choice import calibrate, choose_by
from askew.engine.task import Task
from askew.engine.threads import SHARED, examples_per_step, forward_flops
from askew.runs.environment import describe_environment

# (network, shape of its inputs)
NETWORKS: list[tuple[str, tuple[int, ...]]] = [
    ("mlp(hidden=[16])", (64,)), ("mlp(hidden=[64])", (64,)), ("mlp(hidden=[256])", (64,)),
    ("mlp(hidden=[1024])", (64,)), ("mlp(hidden=[4096])", (64,)), ("mlp(hidden=[64, 64, 64, 64])", (64,)),
    ("mlp(hidden=[50])", (784,)), ("mlp(hidden=[200, 200])", (784,)), ("small_cnn()", (1, 8, 8)),
    ("small_cnn()", (1, 16, 16)), ("small_cnn()", (1, 28, 28)), ("hello_edge_cnn()", (1, 50, 10)),
    ("fednnnn_mnist_cnn()", (1, 28, 28)), ("mcmahan_mnist_cnn()", (1, 28, 28)), ("fednnnn_cifar_cnn()", (3, 32, 32)),
    ("resnet20_fixup()", (3, 32, 32)),
]
COHORTS, BATCHES = (1, 2, 3, 5, 10, 30, 100), (10, 50)
PEERS = ("W1", "W2", "W3")
# Floating-point operations of a client's forward pass from which a trial is cut short: up to so
# many clients, so many steps.
SIZES = ((0.0, 100, 4), (1e7, 30, 2), (1e8, 10, 1), (1e9, 5, 1))


def trials() -> Iterator[tuple[dict[str, Any], Task]]:
    """The workloads of `peers.py`, then every row of the grid."""
    for name in PEERS:
        work = workload(name)
        task = build_task(work.recipe, data=work.data)
        yield {"network": name, "inputs": list(task.data.input_shape), "batch": work.recipe.batch_size,
               "cohort": task.cohort_size}, task
    for network, shape in NETWORKS:
        generator = torch.Generator().manual_seed(0)
        examples = max(COHORTS) * max(BATCHES)
        x, y = torch.randn(examples, *shape, generator=generator), torch.arange(examples) % 10
        data = Dataset("random", Examples(x, y), Examples(x[:100], y[:100]), tuple(map(str, range(10))))
        for batch in BATCHES:
            for cohort in COHORTS:
                recipe = Recipe(population=f"iid(clients={cohort})", batch_size=batch, model=network)
                about = {"network": network, "inputs": list(shape), "batch": batch, "cohort": cohort}
                yield about, build_task(recipe, data=data)


def measure(passes: int) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(passes):
        for what, task in trials():
            step = forward_flops(task) * examples_per_step(task)
            _, clients, steps = next(size for size in reversed(SIZES) if step >= size[0])
            if task.cohort_size > clients and what["network"] not in PEERS:
                continue
            weights = sum(p.numel() for p in task.module.parameters())
            row = rows.setdefault(json.dumps(what),
                                  {**what, "weights": weights, "flops_per_step": round(step), "seconds": {}})
            for timing in calibrate(task, repeats=3, clients=clients, steps=steps):
                if timing.seconds is not None:
                    row["seconds"][timing.engine] = min(timing.seconds, row["seconds"].get(timing.engine, float("inf")))
            shown = {name: float(f"{1e3 * value:.3g}") for name, value in row["seconds"].items()}
            print({**row, "seconds": shown}, f"load {os.getloadavg()[0]:.1f}", flush=True)  # noqa: T201
    return list(rows.values())


def judge(rows: list[dict[str, Any]], threads: int) -> dict[str, Any]:
    """How often the rule takes the fastest engine (or one within 10% of it), and what it costs where it does not."""
    losses = []
    for row in rows:
        if threads == 1 and row["flops_per_step"] >= SHARED:
            continue
        chosen = choose_by(row["weights"], row["flops_per_step"], row["cohort"], row["cohort"], threads)
        # One client in `parallel` is one client in `sequential`.
        possible = {name: value for name, value in row["seconds"].items()
                    if name != "parallel" or min(threads, row["cohort"]) > 1}
        if chosen not in possible:
            chosen = "sequential"
        losses.append((possible[chosen] / min(possible.values()), chosen, row))
    losses.sort(key=lambda loss: -loss[0])
    worst = [{"network": row["network"], "inputs": row["inputs"], "batch": row["batch"], "cohort": row["cohort"],
              "taken": chosen, "ratio": round(ratio, 2)} for ratio, chosen, row in losses[:10]]
    ratios = [ratio for ratio, _, _ in losses]
    return {"rows": len(ratios), "fastest": sum(ratio == 1 for ratio in ratios),
            "within_10_percent": sum(ratio <= 1.1 for ratio in ratios),
            "mean_ratio": round(sum(ratios) / len(ratios), 3), "worst": worst,
            "peers": {row["network"]: (chosen, round(ratio, 2)) for ratio, chosen, row in losses
                      if row["network"] in PEERS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--judge", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = json.loads(options.judge.read_text()) if options.judge else {
        "environment": describe_environment("cpu"), "passes": options.passes, "rows": measure(options.passes)}
    rule = {f"{threads} threads": judge(table["rows"], threads) for threads in sorted({1, options.threads})}
    print(json.dumps(rule, indent=1))  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({**table, "rule": rule}, indent=1) + "\n")


if __name__ == "__main__":
    main()
