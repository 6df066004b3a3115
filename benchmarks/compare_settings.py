"""How the arguments of `askew compare`'s default job were chosen.

    python benchmarks/compare_settings.py results/compare_settings.json      (about 5 minutes on one core)

Neither the seeds that the job reports (0, 1, 2) nor the test set are looked at: 28 training images of each class are
held out of the digits, and every candidate is judged on those after the last round, mean of three other seeds.

1. The clients' learning rate, one for all methods and federations, is the one with which *FedAvg* does best, mean of
   the three federations of the job's first table: the baseline is not handicapped.
2. Each method's own arguments are the best of a small grid at that rate (of equals, the first). What a method needs
   besides (5% of the data at the server) is a resource, not an argument: the same for all that need it, not searched.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import askew
from askew.data import load
from askew.data.split import take_per_class
from askew.runs.default_job import JOB, ONE_CLASS, SKEWS
from askew.runs.environment import describe_environment
from askew.runs.load import load_recipe

SEEDS = (100, 101, 102)
RATES = (0.03, 0.1, 0.3, 1.0)
HELD_OUT_PER_CLASS = 28  # of about 144
GRID: dict[str, dict[str, Sequence[Any]]] = {
    "fedavgm": {"beta": (0.5, 0.7, 0.9)},
    "server_momentum": {"beta": (0.5, 0.7, 0.9)},
    "fedprox": {"mu": (0.001, 0.01, 0.1, 1.0)},
    "norm_norm": {"beta": (0.3, 0.5, 0.7, 1.0)},
    "fednnnn": {"beta": (0.3, 0.5, 0.7, 1.0), "gamma": (0.5, 0.8, 0.9)},
    # Below 5 around the origin the ball does not even hold the network's first weights. The text bounds the model, a
    # related program of the authors the update (centre "start").
    "projected": {"radius": (8.0, 6.0, 4.0, 2.0, 1.0, 0.5), "noise": (1e-4,), "centre": ("'origin'", "'start'")},
    "sign_agreement": {"theta": (2, 4, 6)},
    "server_training": {"hold_out": (0.05,), "epochs": (1,)},
    "ozdayi_combination": {"theta": (2, 4), "beta": (0.5, 0.7, 0.9), "hold_out": (0.05,)},
    "data_sharing": {"hold_out": (0.05,), "alpha": (0.5, 1.0)},
    "fedcd": {"milestones": ([5, 15, 25, 30], [5, 15], [5, 10, 15], [10, 20])},
}


def held_out_digits() -> askew.Dataset:
    """The training digits alone, some of them in the place of the test set."""
    digits = load("digits")
    held = np.zeros(len(digits.train), bool)
    held[take_per_class(digits.train.y.numpy(), np.full(digits.num_classes, HELD_OUT_PER_CLASS))] = True
    parts = [askew.Examples(digits.train.x[mask], digits.train.y[mask]) for mask in (~held, held)]
    return askew.Dataset("digits held out", parts[0], parts[1], digits.classes)


def candidates(method: str) -> Iterator[str]:
    """`method(argument=value, ...)` for each point of its grid."""
    grid = GRID.get(method, {})
    for values in itertools.product(*grid.values()):
        inner = ", ".join(f"{name}={value}" for name, value in zip(grid, values, strict=True))
        yield f"{method}({inner})"


def accuracy(method: str, rate: float, data: askew.Dataset, population: str = ONE_CLASS) -> dict[str, Any]:
    """Mean and standard deviation of the last round's accuracy; a run that diverges counts as 0."""
    found = []
    for seed in SEEDS:
        recipe = load_recipe(None, [f"sgd.lr={rate}"], method, {**JOB, "population": population}).replace(seed=seed)
        try:
            found.append(askew.run(recipe, data=data, engine="vectorised").accuracy)
        except askew.DivergedError:
            found.append(0.0)
    row = {"method": method, "lr": rate, "population": population, "accuracy_mean": float(np.mean(found)),
           "accuracy_std": float(np.std(found, ddof=1))}
    sys.stderr.write(f"{row['accuracy_mean']:.4f} ± {row['accuracy_std']:.4f}  lr {rate}  {method}  {population}\n")
    return row


def main() -> None:
    data = held_out_digits()
    rates = [accuracy("fedavg()", rate, data, population) for rate in RATES for population in SKEWS.values()]
    rate = max(RATES, key=lambda rate: sum(row["accuracy_mean"] for row in rates if row["lr"] == rate))
    tried = {method: [accuracy(call, rate, data) for call in candidates(method)] for method in GRID}
    chosen = {method: max(rows, key=lambda row: row["accuracy_mean"])["method"] for method, rows in tried.items()}
    result = {"seeds": SEEDS, "job": JOB, "lr": rate, "chosen": chosen, "rates": rates, "tried": tried,
              "environment": describe_environment("cpu")}
    text = json.dumps(result, indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
