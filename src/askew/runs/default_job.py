"""The default job of `askew compare`: every method on one small skewed federation that needs no download.

Ten clients with one class each (Zhao et al.'s non-IID(1)), all of whom train in each round: where FedAvg loses most.
How rate and arguments were chosen is in benchmarks/compare_settings.py (on held-out training images and on other seeds
than those the job reports), what was tried in results/compare_settings.json.
"""

from __future__ import annotations

from typing import Any

ONE_CLASS = "shards(clients=10, shards_per_client=1)"
# Fields of `Recipe`. The rate is the best of 0.03, 0.1, 0.3, 1 for FedAvg, mean over the federations of `SKEWS`. (With
# 1 it does better on one class per client, 0.898 against 0.854, and breaks down on two, 0.244 against 0.931.)
JOB: dict[str, Any] = {"data": "digits()", "population": ONE_CLASS, "model": "mlp(hidden=[64])",
                       "client": ["sgd(lr=0.3)"], "epochs": 1, "batch_size": 10, "rounds": 30}
# What `askew deploy try` deploys where no recipe is named: a process per client, so few of them.
DEPLOYED: dict[str, Any] = {"population": "dirichlet(clients=3, alpha=0.5)", "rounds": 3}
# The table that comes first: what skew costs FedAvg. From no skew to the job's own federation.
SKEWS = {"all clients alike": "iid(clients=10)",
         "two classes a client": "shards(clients=10, shards_per_client=2, distinct=true)",
         "one class a client": ONE_CLASS}
# The methods of the five papers; arguments stand here where the best ones found differ from the methods' defaults.
# Three need examples at the server, 5% of the training set each. No projection onto a ball helped: this radius is one
# that does not bind. FedCD's milestones were chosen with models rounded to nearest; rounded at random, its default [5,
# 15, 25, 30] does as well within the spread (97.9 ± 2.3 against 97.7 ± 0.4 of the held-out images).
METHODS = ("centralised", "fedavg", "fedavgm", "server_momentum(beta=0.9)", "fedprox(mu=0.001)", "norm_norm", "fednnnn",
           "projected(radius=8.0, noise=0.0001)", "sign_agreement", "server_training", "ozdayi_combination",
           "data_sharing(hold_out=0.05, alpha=1.0)", "fedcd(milestones=[5, 10, 15])")
