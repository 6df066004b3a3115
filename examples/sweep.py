"""Forty configurations at once: rates, momenta and seeds train together as one more batch axis.

    python examples/sweep.py
"""

from collections import defaultdict
from statistics import fmean, stdev

import askew
from askew.runs.sweep import grid, sweep


def main() -> None:
    base = askew.methods.fedavgm(askew.Recipe(population="dirichlet(clients=10, alpha=0.1)", rounds=8))
    rates, momenta = [0.01, 0.03, 0.1, 0.3], [0.0, 0.5, 0.7, 0.9, 0.95]
    recipes = grid(base, {"sgd.lr": rates, "momentum.beta": momenta, "seed": [0, 1]})
    found = defaultdict(list)
    for outcome in sweep(recipes):
        # A configuration that diverges ends alone; the others go on.
        accuracy = 0.0 if outcome.diverged else outcome.accuracy
        found[str(outcome.recipe.client[0]), str(outcome.recipe.server[-1])].append(accuracy)
    ranked = sorted(found.items(), key=lambda item: -fmean(item[1]))
    print(f"{len(recipes)} runs; the best of {len(ranked)} settings, mean and deviation over 2 seeds:")
    for (step, server), accuracies in ranked[:5]:
        print(f"{fmean(accuracies):.3f} ± {stdev(accuracies):.3f}  {step}  {server}")


if __name__ == "__main__":
    main()
