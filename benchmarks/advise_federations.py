"""The federations that judge `askew advise`: six data sets, seven kinds of skew, 10 and 100 clients.

None of them was looked at while a constant of `askew.advice` was chosen: methods' settings are those of their papers,
numbers of seeds and rounds come from reasoning about noise (docs/advise.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from askew.core.recipe import Recipe

# What all federations of a data set have in common; the rate is the default recipe's, around which others are tried.
DATA = {
    "digits": {"data": "digits()", "model": "mlp(hidden=[64])", "batch_size": 10},
    "mnist": {"data": "npz('{folder}/mnist.npz')", "model": "mlp(hidden=[64])", "batch_size": 20},
    "cifar": {"data": "npz('{folder}/cifar.npz')", "model": "mlp(hidden=[64])", "batch_size": 20,
              "preprocess": ["normalise()"]},
    "speech": {"data": "npz('{folder}/speech.npz')", "model": "mlp(hidden=[64])", "batch_size": 10,
               "preprocess": ["normalise()"]},
    "cancer": {"data": "npz('{folder}/cancer.npz')", "model": "mlp(hidden=[16])", "batch_size": 10},
    "wine": {"data": "npz('{folder}/wine.npz')", "model": "mlp(hidden=[16])", "batch_size": 5},
}
# Kind of skew -> name -> scheme. "K" becomes the number of clients.
ALL = {
    "iid": {"iid": "iid(clients=K)"},
    "dirichlet": {f"dirichlet {alpha}": f"dirichlet(clients=K, alpha={alpha})" for alpha in (0.05, 0.5, 5.0)},
    "shards": {f"shards {n}": f"shards(clients=K, shards_per_client={n})" for n in (1, 2)},
    "emd": {"emd 1.44": "emd(clients=K, emd=1.44)"},
    "quantity": {"sizes 0.5": "dirichlet_sizes(clients=K, beta=0.5, min_examples=5)"},
    "noise": {"noise": "iid(clients=K) + feature_noise({level})"},
}
A_TENTH = {
    "iid": ALL["iid"],
    "dirichlet": {"dirichlet 0.1": "dirichlet(clients=K, alpha=0.1)"},
    "shards": {"shards 2": ALL["shards"]["shards 2"]},
    "quantity": {"sizes 2": "dirichlet_sizes(clients=K, beta=2.0, min_examples=2)"},
    "noise": ALL["noise"],
}
# Standard deviation at the noisiest client: about that of the inputs themselves, as the network sees them.
LEVEL = {"digits": 0.5, "mnist": 0.5, "cifar": 0.3, "cancer": 2.0, "wine": 2.0}
TABLE_SCHEMES = ("iid", "dirichlet 0.05", "dirichlet 0.5", "sizes 0.5", "noise")


@dataclass(frozen=True)
class Federation:
    """One of them.

    Args:
        name: data, scheme, clients.
        skew: the kind of skew.
    """

    name: str
    data: str
    skew: str
    recipe: Recipe


def federations(folder: Path | str) -> list[Federation]:
    """All, each with a recipe of FedAvg; the data lie in `folder`."""
    made: list[Federation] = []

    def add(data: str, skew: str, name: str, scheme: str, clients: int) -> None:
        all_train = clients == 10
        text = scheme.replace("=K", f"={clients}").replace("{level}", str(LEVEL.get(data)))
        settings = {key: value.replace("{folder}", str(folder)) if key == "data" else value
                    for key, value in DATA[data].items()}
        # A tenth of the clients: each round sees a tenth of the examples, so there are four times as many.
        recipe = Recipe(population=f"{text} + validation(0.1)", rounds=20 if all_train else 80,
                        fraction=1.0 if all_train else 0.1, **settings)
        made.append(Federation(f"{data}, {name}, {clients} clients", data, skew, recipe))

    for data in ("digits", "mnist", "cifar"):
        for skew, schemes in ALL.items():
            for name, scheme in schemes.items():
                add(data, skew, name, scheme, 10)
        for skew, schemes in A_TENTH.items():
            for name, scheme in schemes.items():
                if not (data == "digits" and skew in ("quantity", "noise")):  # 14 examples per client
                    add(data, skew, name, scheme, 100)
    for data in ("cancer", "wine"):
        for skew, schemes in ALL.items():
            for name, scheme in schemes.items():
                if name in TABLE_SCHEMES and not (data == "wine" and skew == "quantity"):
                    add(data, skew, name, scheme, 10)
    add("speech", "iid", "iid", "iid(clients=K)", 10)
    add("speech", "dirichlet", "dirichlet 0.1", "dirichlet(clients=K, alpha=0.1)", 10)
    add("speech", "natural", "speakers", "natural(clients=K)", 10)
    add("speech", "natural", "speakers", "natural(clients=K)", 100)
    return made
