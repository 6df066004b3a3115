"""How many examples a forward pass should take when a model is judged: processor time over parts of several sizes.

    python benchmarks/evaluation_parts.py [--examples 4000] [--repeats 3] [--device cpu] [--out FILE]

Random images; one thread. Sizes come in turns, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

import askew
from askew.core.dataset import Dataset, Examples
from askew.engine.build import build_task
from askew.engine.evaluate import evaluate
from askew.engine.tuning import CHUNK
from askew.runs.environment import describe_environment

NETWORKS = {"mcmahan_cifar_cnn()": (3, 32, 32), "mcmahan_mnist_cnn()": (1, 28, 28), "resnet20_fixup()": (3, 32, 32),
            "mlp()": (1, 28, 28)}
SIZES = (100, 250, 500, 1_000, 2_000)


def measure(network: str, examples: int, repeats: int, device: str) -> dict[str, float]:
    """Seconds over the sizes of parts."""
    def some(number: int) -> Examples:
        images = torch.randint(0, 256, (number, *NETWORKS[network]), dtype=torch.uint8)
        return Examples(images, torch.arange(number) % 10)

    data = Dataset("random", some(100), some(examples), tuple("0123456789")).to(torch.device(device))
    task = build_task(askew.Recipe(model=network, population="iid(clients=2)"), data=data, device=device)
    took: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(repeats + 1):
        for size in SIZES:
            CHUNK[device] = size
            began = time.process_time() if device == "cpu" else time.perf_counter()
            evaluate(task, task.fresh)
            took[size].append((time.process_time() if device == "cpu" else time.perf_counter()) - began)
    return {str(size): round(statistics.median(seconds[1:]), 4) for size, seconds in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--examples", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for network in NETWORKS:
        rows.append({"network": network, "seconds": measure(network, given.examples, given.repeats, given.device)})
        sys.stdout.write(json.dumps(rows[-1]) + "\n")
    if given.out:
        command = f"python benchmarks/evaluation_parts.py --examples {given.examples} --repeats {given.repeats}"
        given.out.write_text(json.dumps({"command": command, "environment": describe_environment(given.device),
                                         "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
