"""The methods of the papers, and recipes from files."""

from askew.recipes.load import load_recipe
from askew.recipes.methods import (
    centralised,
    data_sharing,
    fedavg,
    fedavgm,
    fedcd,
    fednnnn,
    fedprox,
    norm_norm,
    ozdayi_combination,
    projected,
    server_momentum,
    server_training,
    sign_agreement,
)

__all__ = ["centralised", "data_sharing", "fedavg", "fedavgm", "fedcd", "fednnnn", "fedprox", "load_recipe", "norm_norm",
           "ozdayi_combination", "projected", "server_momentum", "server_training", "sign_agreement"]
