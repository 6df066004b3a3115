"""How fast is a GPU: rounds of the workloads with each precision, against one model trained on the same images.

    python benchmarks/gpu.py [--workloads W1,W4,hsu] [--precisions fp32,tf32,bf16] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from in_turn import add_options, my_turn
from workloads import Workload, workload

from askew.engine.build import build_task
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised, matrix_precision
from askew.rounds.simulation import Simulation
from askew.runs.environment import describe_environment


def federated(work: Workload, precision: str, rounds: int, device: str, engine: str = "vectorised",
              **options: Any) -> Callable[[], dict[str, Any]]:
    """Rounds of all clients; made ready here (the first round compiles), timed when called."""
    task = build_task(work.recipe, data=work.data, device=device)
    simulation = Simulation(task, (Vectorised(task, precision=precision, **options) if engine == "vectorised"
                                   else Sequential(task)))
    began = time.perf_counter()
    simulation.advance()
    torch.cuda.synchronize()
    first = time.perf_counter() - began

    def timed() -> dict[str, Any]:
        median = seconds_of_a_round(simulation, rounds)
        return {"what": f"{work.name} {engine}", "precision": precision, "first_s": round(first, 2),
                "round_ms": round(1e3 * median, 3), "images_per_s": round(work.images_per_round / median),
                "rounds": rounds}

    return timed


def seconds_of_a_round(simulation: Simulation, rounds: int) -> float:
    """The median of five times `rounds`: a round is handed over before the one before it is waited for, so that only
    many of them show what one costs."""
    for _ in range(3):
        simulation.advance()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(rounds):
            simulation.advance()
        times.append((time.perf_counter() - began) / rounds)
    return statistics.median(times)


def centralised_step(work: Workload, precision: str, device: str,
                     model: nn.Module | None = None) -> Callable[[], dict[str, Any]]:
    """One model, same images: batch K x B, compiled, one CUDA graph, channels last. Made here, timed when called."""
    task = build_task(work.recipe, data=work.data, device=device, model=model)
    clients = task.cohort_size
    batch = work.recipe.batch_size * clients
    module = task.module.to(memory_format=torch.channels_last)
    parameters = list(module.parameters())
    index = torch.zeros(batch, dtype=torch.int64, device=device)
    rate, decay = 0.05, 5e-4

    def losses(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            scores = module(x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x)
        return F.cross_entropy(scores.float(), y)

    forward = torch.compile(losses, dynamic=False)
    inputs = torch.compile(task.prepare.apply, dynamic=False)
    keys = torch.arange(batch, device=device) if task.prepare.random else None

    def step() -> None:
        loss = forward(inputs(task.data.train.x[index], keys), task.data.train.y[index])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_mul_(parameters, 1 - rate * decay)
            torch._foreach_add_(parameters, gradients, alpha=-rate)

    with matrix_precision(precision, torch.device(device)):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()

    def timed() -> dict[str, Any]:
        order = torch.randperm(len(task.data.train), device=device)
        times = []
        for repeat in range(30):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for chunk in range(10):
                low = (repeat * 10 + chunk) * batch % (len(order) - batch + 1)
                index.copy_(order[low : low + batch])
                graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - began) / 10)
        median = statistics.median(times)
        return {"what": f"{work.name} centralised, batch {batch}", "precision": precision, "round_ms": None,
                "images_per_s": round(batch / median), "rounds": 300}

    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="W1,W4,hsu")
    parser.add_argument("--precisions", default="fp32,tf32,bf16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--loop", action="store_true", help="also time one client after the other")
    parser.add_argument("--json", type=Path)
    add_options(parser)
    options = parser.parse_args()
    rows = []
    for name in options.workloads.split(","):
        work = workload(name)
        contestants = [made for precision in options.precisions.split(",")
                       for made in (federated(work, precision, options.rounds, "cuda"),
                                    centralised_step(work, precision, "cuda"))]
        if options.loop:
            contestants.append(federated(work, "fp32", 2, "cuda", engine="sequential"))
        with my_turn(options.meet, options.parties):
            for timed in contestants:
                rows.append(timed())
                print(rows[-1], flush=True)  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({"environment": describe_environment("cuda"), "rows": rows}, indent=1)
                                + "\n")


if __name__ == "__main__":
    main()
