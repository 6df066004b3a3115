"""Does lower precision cost accuracy? One MNIST federation, trained in fp32, tf32 and bf16 on a GPU.

    python benchmarks/precision.py --data-dir DIR [--rounds 15] [--seeds 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import askew
from askew.runs.environment import describe_environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--precisions", default="fp32,tf32,bf16")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    recipe = askew.Recipe(data="mnist()", preprocess="normalise()",
                          population="shards(clients=100, shards_per_client=2)", epochs=5, batch_size=50,
                          model="fednnnn_mnist_cnn()", client="sgd(lr=0.05)", server="mean(weights='uniform')",
                          rounds=options.rounds)
    rows = []
    for precision in options.precisions.split(","):
        accuracies, began = [], time.perf_counter()
        for seed in range(options.seeds):
            result = askew.run(recipe.replace(seed=seed), device="cuda", precision=precision, data_dir=options.data_dir)
            accuracies.append(result.accuracy)
        rows.append({"precision": precision, "accuracy_mean": statistics.mean(accuracies), "accuracies": accuracies,
                     "seconds_a_run": (time.perf_counter() - began) / options.seeds, "rounds": options.rounds})
        print(rows[-1], flush=True)  # noqa: T201
    if options.json:
        about = {"environment": describe_environment("cuda"), "recipe": recipe.to_toml(), "rows": rows}
        options.json.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
