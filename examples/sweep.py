"""Forty configurations at once: rates, momenta and seeds train together as one more batch axis.

    python examples/sweep.py
"""

from itertools import product

import askew
from askew.runs.ranking import ranked
from askew.runs.sweep import sweep, with_settings


def main() -> None:
    base = askew.methods.fedavgm(askew.Recipe(population="dirichlet(clients=10, alpha=0.1)", rounds=8))
    rates, momenta = [0.01, 0.03, 0.1, 0.3], [0.0, 0.5, 0.7, 0.9, 0.95]
    settings = [{"sgd.lr": rate, "momentum.beta": beta, "seed": seed}
                for rate, beta, seed in product(rates, momenta, [0, 1])]
    # A configuration that diverges ends alone; the others go on.
    outcomes = sweep([with_settings(base, setting) for setting in settings])
    best = ranked(settings, outcomes)
    print(f"{len(settings)} runs; the best of {len(best)} settings, mean and deviation over 2 seeds:")
    for setting in best[:5]:
        print(f"{setting.mean:.3f} ± {setting.std:.3f}  {dict(setting.values)}")


if __name__ == "__main__":
    main()
