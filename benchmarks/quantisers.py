"""What a quantiser costs: FedAvg on the digits with models of 32, 8 and 4 bits, rounded to nearest or at random.

    python benchmarks/quantisers.py [--rounds 20] [--seeds 3] [--json results/bench/quantisers.json]  (a minute on one
    core)

Ten clients, alike or with two shards each, all of whom train in each round. Three quantisers: `quantize` on devices
and, in each round, at the server; `quantize` on devices only; `quantize_at_random`, which fedcd2020's authors use, on
devices only. Two rates: the smaller, the less a client's weights move in a round, in steps of the quantiser.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import askew
from askew.runs.environment import describe_environment

POPULATIONS = ("iid(clients=10)", "shards(clients=10, shards_per_client=2)")
RATES = (0.1, 0.02)
BITS = (8, 4)
QUANTISERS = {"to nearest, devices and server": ("quantize({bits})", ("mean()", "quantize({bits})")),
              "to nearest, devices only": ("quantize({bits})", ("mean()",)),
              "at random, devices only": ("quantize_at_random({bits})", ("mean()",))}


def measured(recipe: askew.Recipe, seeds: int, **about: Any) -> dict[str, Any]:
    """Accuracies on the test set after the last round, one per seed, and the bytes of a client in a round."""
    results = [askew.run(recipe.replace(seed=seed), engine="vectorised") for seed in range(seeds)]
    accuracies = [result.accuracy for result in results]
    record = results[0].records[0]
    row = {**about, "accuracy_mean": statistics.mean(accuracies),
           "accuracy_std": statistics.stdev(accuracies) if seeds > 1 else None, "accuracies": accuracies,
           "bytes_up_per_client": record["bytes_up"] / record["clients"],
           "bytes_down_per_client": record["bytes_down"] / record["clients"],
           "client": [str(spec) for spec in recipe.client], "server": [str(spec) for spec in recipe.server]}
    sys.stderr.write(f"{100 * row['accuracy_mean']:.1f} %  {about}\n")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for population, rate in itertools.product(POPULATIONS, RATES):
        base = askew.Recipe(population=population, client=f"sgd(lr={rate})", rounds=options.rounds)
        rows.append(measured(base, options.seeds, population=population, lr=rate, bits=32, quantiser="none"))
        for bits, (name, (upload, server)) in itertools.product(BITS, QUANTISERS.items()):
            recipe = base.replace(client=[*base.client, upload.format(bits=bits)],
                                  server=[text.format(bits=bits) for text in server])
            rows.append(measured(recipe, options.seeds, population=population, lr=rate, bits=bits, quantiser=name))
    about = {"environment": describe_environment("cpu"), "engine": "vectorised", "seeds": list(range(options.seeds)),
             "recipe": askew.Recipe(rounds=options.rounds).to_toml(), "rows": rows}
    text = json.dumps(about, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
