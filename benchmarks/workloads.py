"""The four workloads of the benchmarks, on data made up at random: what is measured is speed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from askew.core.dataset import Dataset, Examples
from askew.core.recipe import Recipe
from askew.core.registry import piece


@piece("model")
def pfl_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The two-convolution network of pfl-research's CIFAR-10 benchmark, without its dropout."""
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(3, 32, 3), relu1=nn.ReLU(), conv2=nn.Conv2d(32, 64, 3), relu2=nn.ReLU(), pool=nn.MaxPool2d(2),
        flatten=nn.Flatten(), fc1=nn.Linear(64 * 14 * 14, 128), relu3=nn.ReLU(), fc2=nn.Linear(128, num_classes),
    ))


@dataclass(frozen=True)
class Workload:
    """Data, recipe and what to call it."""

    name: str
    about: str
    recipe: Recipe
    data: Dataset

    @property
    def images_per_round(self) -> int:
        cohort = round(self.recipe.fraction * self.recipe.population.args["clients"])
        return cohort * (len(self.data.train) // self.recipe.population.args["clients"]) * self.recipe.epochs


def workload(name: str, **changes: Any) -> Workload:
    """W1 to W4, or hsu2019's round, with fields of the recipe changed if wanted."""
    about, recipe, shape, examples = {
        "W1": ("pfl's CIFAR-10 benchmark: 50 of 1,000 clients x 50 images, B 10, 2-conv CNN",
               Recipe(population="iid(clients=1000)", fraction=0.05, batch_size=10, model="pfl_cnn()"), (3, 32, 32),
               50_000),
        "W2": ("fednnnn2020's MNIST net: 10 of 100 clients x 600 images, 2 classes each, B 50",
               Recipe(population="shards(clients=100, shards_per_client=2)", fraction=0.1, batch_size=50,
                      model="fednnnn_mnist_cnn()"),
               (1, 28, 28), 60_000),
        "W3": ("MLP 64-64-10: 100 of 1,000 clients x 100 samples, B 10",
               Recipe(population="iid(clients=1000)", fraction=0.1, batch_size=10, model="mlp(hidden=[64])"), (64,),
               100_000),
        "W4": ("fednnnn2020's CIFAR-10 net: 100 clients x 500 images, B 50",
               Recipe(population="iid(clients=100)", batch_size=50, model="fednnnn_cifar_cnn()",
                      client="sgd(lr=0.05, weight_decay=0.0005)"),
               (3, 32, 32), 50_000),
        "hsu": ("hsu2019's CIFAR-10 round: 5 of 100 clients x 500 images, B 64, 24x24 crops",
                Recipe(population="iid(clients=100)", fraction=0.05, batch_size=64, model="mcmahan_cifar_cnn()",
                       preprocess="tf_cifar()", client="sgd(lr=0.03, weight_decay=0.004)",
                       server=["mean()", "momentum(0.9, nesterov=true)"]), (3, 32, 32), 50_000),
    }[name]
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(examples, *shape, generator=generator) if len(shape) == 1
         else torch.randint(0, 256, (examples, *shape), generator=generator, dtype=torch.uint8))
    y = torch.arange(examples) % 10
    test = Examples(x[:1000], y[:1000])
    data = Dataset(name, Examples(x, y), test, tuple(map(str, range(10))))
    return Workload(name, about, recipe.replace(evaluate_every=10**9, rounds=10**9, **changes), data)
